from __future__ import annotations

from flashinfer_bench.decompose.grouping import decompose_trace, parse_overrides
from flashinfer_bench.decompose.ir import Ref
from tests.unit.decompose.traces import Building, children, leaves


def _block(made: Building, x: Ref, path: str) -> Ref:
    """A module of eight kernels."""
    with made.module(path, "Block"):
        hidden = made.op("torch.nn.functional.layer_norm", x, (8,))
        hidden = made.op("relu", made.linear(hidden, 16))
        hidden = made.op("add", made.linear(hidden, 8), x)
        return made.op("add", made.linear(made.linear(hidden, 8), 8), hidden)


def test_a_module_of_six_kernels_or_more_is_a_layer_and_a_model_with_layers_is_a_model() -> None:
    made = Building(model="7_TwoBlocks")
    x = _block(made, made.input(4, 8), "blocks.0")

    tree = decompose_trace(made.trace(_block(made, x, "blocks.1")))

    assert (tree.level, tree.name) == ("model", "TwoBlocks")
    assert children(tree) == [("layer", "Block"), ("layer", "Block")]
    assert [child.id for child in tree.children] == ["layer:blocks.0", "layer:blocks.1"]


def test_a_module_of_two_to_five_kernels_is_a_fusion_even_of_two_heavy_ones() -> None:
    made = Building()
    x = _block(made, made.input(4, 8), "block")
    with made.module("head", "MLPHead"):
        x = made.linear(made.op("relu", made.linear(x, 8)), 2)

    tree = decompose_trace(made.trace(x))

    assert children(tree) == [("layer", "Block"), ("fusion", "mlp_head")]
    assert leaves(tree.children[1]) == ["linear", "relu", "linear"]


def test_a_small_module_inside_a_fusion_is_part_of_it() -> None:
    made = Building()
    x = _block(made, made.input(4, 8), "block")
    with made.module("outer", "Outer"):
        with made.module("inner", "Inner"):
            x = made.op("relu", made.linear(x, 8))
        x = made.linear(x, 8)

    tree = decompose_trace(made.trace(x))

    assert children(tree.children[1]) == [("kernel", name) for name in ("linear", "relu", "linear")]


def test_a_container_of_torch_is_named_by_what_it_holds_or_where_it_is() -> None:
    made = Building()
    x = made.input(4, 8)
    with made.module("stage.0", "Sequential", is_library=True):
        for _ in range(3):
            x = made.op("relu", made.linear(x, 8))
    with made.module("head", "Sequential", is_library=True):
        x = made.op("relu", made.linear(x, 8))

    tree = decompose_trace(made.trace(x))

    assert children(tree) == [("layer", "stage"), ("fusion", "linear_relu")]


def test_a_wrapper_around_everything_adds_no_level() -> None:
    made = Building()
    x = made.input(4, 8)
    with made.module("net", "Wrapper"):
        x = _block(made, x, "a")
        x = _block(made, x, "b")

    tree = decompose_trace(made.trace(x))

    assert children(tree) == [("layer", "Block"), ("layer", "Block")]


def test_a_module_used_twice_is_two_layers_with_different_ids() -> None:
    made = Building()
    x = _block(made, made.input(4, 8), "shared")

    tree = decompose_trace(made.trace(_block(made, x, "shared")))

    assert [child.id for child in tree.children] == ["layer:shared", "layer:shared~2"]


def _flat(made: Building, rounds: int) -> Ref:
    """A loop of equal steps in one scope, each seven kernels that are no chain."""
    x = made.input(4, 8)
    for _ in range(rounds):
        hidden = made.op("relu", made.linear(x, 8))
        hidden = made.linear(made.linear(hidden, 16), 8)
        x = made.op("add", made.linear(made.linear(hidden, 8), 8), x)
    return x


def test_a_long_scope_is_split_where_it_repeats() -> None:
    made = Building(model="loop")
    tree = decompose_trace(made.trace(_flat(made, 12)))

    assert children(tree) == [("layer", "loopStep")] * 12
    assert tree.children[0].reason == "one of 12 equal sequences of 7 kernels"


def test_a_scope_that_is_to_stay_whole_is_not_split() -> None:
    made = Building()
    with made.module("loop", "Loop"):
        x = _flat(made, 12)
    trace = made.trace(made.linear(x, 2))

    split = decompose_trace(trace)
    whole = decompose_trace(trace, parse_overrides({"scopes": {"loop": "whole"}}))

    assert children(split.children[0])[0] == ("layer", "LoopStep")
    assert children(whole.children[0])[0] == ("fusion", "linear_relu")


def test_fifteen_kernels_are_not_yet_a_long_scope() -> None:
    made = Building()
    tree = decompose_trace(made.trace(_flat(made, 2)))

    assert tree.level == "layer"
    assert "layer" not in {level for level, _ in children(tree)}


def test_a_long_scope_is_split_at_pools_first() -> None:
    made = Building(model="net")
    x = made.input(2, 3, 32, 32)
    for _ in range(3):
        for _ in range(3):
            x = made.op("relu", made.op("torch.nn.functional.conv2d", x, made.param(3, 3, 3, 3)))
        x = made.op("torch.nn.functional.max_pool2d", x, 2)

    tree = decompose_trace(made.trace(x))

    assert children(tree) == [("layer", "netStage")] * 3
    assert len(leaves(tree.children[0])) == 7


def test_the_root_is_a_kernel_a_fusion_a_layer_or_a_model_by_its_kernels() -> None:
    def level(heavy: int, light: int) -> str:
        made = Building()
        x = made.input(4, 8)
        for _ in range(heavy):
            x = made.linear(x, 8)
        for _ in range(light):
            x = made.op("relu", x)
        return decompose_trace(made.trace(x)).level

    assert level(1, 0) == "kernel"
    assert level(5, 0) == "fusion"
    assert level(1, 9) == "fusion"
    assert level(2, 4) == "layer"
    assert level(1, 10) == "layer"
    assert level(15, 0) == "layer"
    assert level(16, 0) == "model"


def test_a_root_of_one_kernel_owns_its_views() -> None:
    made = Building()
    turned = made.op("torch.transpose", made.input(8, 4), 0, 1, shape=(4, 8))

    tree = decompose_trace(made.trace(made.linear(turned, 8)))

    assert (tree.level, tree.name, tree.ops) == ("kernel", "linear", (0, 1))


def test_a_small_model_that_holds_a_layer_is_a_model() -> None:
    made = Building()
    x = _block(made, made.input(4, 8), "block")

    tree = decompose_trace(made.trace(made.linear(x, 2)))

    assert (tree.level, len(leaves(tree))) == ("model", 9)


def test_equal_chains_in_a_row_are_not_put_into_steps() -> None:
    made = Building()
    x = made.input(4, 8)
    for _ in range(12):
        x = made.op("relu", made.linear(x, 8))

    assert children(decompose_trace(made.trace(x))) == [("fusion", "linear_relu")] * 12


def test_a_wrapper_around_one_layer_gives_it_its_name() -> None:
    made = Building()
    with made.module("encoder", "Encoder"):
        x = _block(made, made.input(4, 8), "only")

    tree = decompose_trace(made.trace(made.linear(x, 2)))

    assert children(tree) == [("layer", "Encoder"), ("kernel", "linear")]
    assert len(leaves(tree.children[0])) == 8


def test_equal_layers_in_a_long_scope_are_not_wrapped_again() -> None:
    made = Building()
    x = made.input(4, 8)
    for number in range(3):
        x = _block(made, x, f"blocks.{number}")
    for width in range(9, 25):
        x = made.linear(x, width)

    assert children(decompose_trace(made.trace(x)))[:3] == [("layer", "Block")] * 3
