from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from flashinfer_bench.decompose.grouping import decompose_trace
from flashinfer_bench.decompose.ir import Ref
from tests.unit.decompose.traces import Building, children, leaves

Formula = Callable[[Building, Ref], Ref]


def _silu(b: Building, x: Ref) -> Ref:
    return b.op("mul", b.op("sigmoid", x), x)


def _silu_by_division(b: Building, x: Ref) -> Ref:
    return b.op("div", x, b.op("add", b.op("exp", b.op("neg", x)), 1.0))


def _mish(b: Building, x: Ref) -> Ref:
    return b.op("mul", x, b.op("tanh", b.op("torch.nn.functional.softplus", x)))


def _hardswish_relu6(b: Building, x: Ref) -> Ref:
    return b.op("div", b.op("mul", x, b.op("torch.nn.functional.relu6", b.op("add", x, 3))), 6)


def _hardswish_clamp(b: Building, x: Ref) -> Ref:
    gate = b.op("div", b.op("clamp", b.op("add", x, 3), min=0, max=6), 6)
    return b.op("mul", x, gate)


def _hardswish_hardsigmoid(b: Building, x: Ref) -> Ref:
    return b.op("mul", x, b.op("torch.nn.functional.hardsigmoid", x))


def _gelu(b: Building, x: Ref) -> Ref:
    inner = b.op("erf", b.op("div", x, math.sqrt(2)))
    return b.op("mul", b.op("mul", x, 0.5), b.op("add", inner, 1))


def _gelu_tanh(b: Building, x: Ref) -> Ref:
    cubic = b.op("add", x, b.op("mul", b.op("pow", x, 3.0), 0.044715))
    inner = b.op("tanh", b.op("mul", cubic, 0.79788456))
    return b.op("mul", b.op("mul", x, 0.5), b.op("add", inner, 1.0))


def _gelu_tanh_otherwise(b: Building, x: Ref) -> Ref:
    cube = b.op("mul", b.op("mul", x, x), x)
    scaled = b.op("mul", x, 0.7978845608)
    inner = b.op("tanh", b.op("add", scaled, b.op("mul", cube, 0.0356774081)))
    return b.op("mul", x, b.op("add", b.op("mul", inner, 0.5), 0.5))


def _rms_norm(b: Building, x: Ref) -> Ref:
    mean = b.op("mean", b.op("pow", x, 2), -1, shape=(8, 1), keepdim=True)
    normal = b.op("mul", x, b.op("rsqrt", b.op("add", mean, 1e-6)))
    return b.op("mul", b.param(16), normal, shape=(8, 16))


def _rms_norm_by_root(b: Building, x: Ref) -> Ref:
    mean = b.op("mean", b.op("mul", x, x), -1, shape=(8, 1), keepdim=True)
    return b.op("div", x, b.op("sqrt", b.op("add", mean, 1e-5)))


def _l2_normalize(b: Building, x: Ref) -> Ref:
    norm = b.op("torch.Tensor.norm", x, p=2, dim=-1, keepdim=True, shape=(8, 1))
    return b.op("div", x, b.op("clamp_min", norm, 1e-12))


def _reverse_cumsum(b: Building, x: Ref) -> Ref:
    return b.op("flip", b.op("cumsum", b.op("flip", x, (1,)), 1), (1,))


def _exclusive_cumsum(b: Building, x: Ref) -> Ref:
    zeros = b.op("zeros", shape=(8, 1))
    moved = b.op("cat", (zeros, x), 1, shape=(8, 17))
    return b.op("cumsum", b.op("narrow", moved, 1, 0, 16, shape=(8, 16)), 1)


def _tril_matmul(b: Building, x: Ref) -> Ref:
    return b.op("tril", b.op("matmul", x, b.op("tril", b.param(16, 16)), shape=(8, 16)))


@pytest.mark.parametrize(
    ("formula", "name"),
    [
        (_silu, "silu"),
        (_silu_by_division, "silu"),
        (_mish, "mish"),
        (_hardswish_relu6, "hardswish"),
        (_hardswish_clamp, "hardswish"),
        (_hardswish_hardsigmoid, "hardswish"),
        (_gelu, "gelu"),
        (_gelu_tanh, "gelu_tanh"),
        (_gelu_tanh_otherwise, "gelu_tanh"),
        (_rms_norm, "rms_norm"),
        (_rms_norm_by_root, "rms_norm"),
        (_l2_normalize, "l2_normalize"),
        (_reverse_cumsum, "reverse_cumsum"),
        (_exclusive_cumsum, "exclusive_cumsum"),
        (_tril_matmul, "tril_matmul"),
    ],
)
def test_an_idiom_is_one_kernel_with_its_name(formula: Formula, name: str) -> None:
    made = Building()
    hidden = made.linear(made.input(8, 16), 16)
    out = made.linear(formula(made, hidden), 4)

    tree = decompose_trace(made.trace(out))

    assert leaves(tree) == ["linear", name, "linear"]
    assert f"idiom:{name}" in tree.children[1].tags


def _other_beta(b: Building, x: Ref) -> Ref:
    return b.op("mul", x, b.op("tanh", b.op("torch.nn.functional.softplus", x, beta=2)))


def _other_offset(b: Building, x: Ref) -> Ref:
    return b.op("div", b.op("mul", x, b.op("torch.nn.functional.relu6", b.op("add", x, 2))), 6)


def _gate_of_another(b: Building, x: Ref) -> Ref:
    return b.op("mul", b.op("sigmoid", b.op("relu", x)), x)


def _inner_value_used_again(b: Building, x: Ref) -> Ref:
    gate = b.op("sigmoid", x)
    return b.op("add", b.op("mul", x, gate), gate)


@pytest.mark.parametrize(
    "formula", [_other_beta, _other_offset, _gate_of_another, _inner_value_used_again]
)
def test_what_only_looks_like_an_idiom_stays_single_operations(formula: Formula) -> None:
    made = Building()
    hidden = made.linear(made.input(8, 16), 16)
    out = made.linear(formula(made, hidden), 4)

    tree = decompose_trace(made.trace(out))

    assert len(leaves(tree)) == len(made.ops)


def test_a_childless_module_of_light_operations_is_one_kernel_named_by_its_class() -> None:
    made = Building()
    hidden = made.linear(made.input(8, 16), 16)
    with made.module("act", "SquaredReLU"):
        hidden = made.op("square", made.op("relu", hidden))
    tree = decompose_trace(made.trace(made.linear(hidden, 4)))

    assert leaves(tree) == ["linear", "squared_relu", "linear"]
    assert tree.children[1].reason == (
        "composite: module SquaredReLU of 2 light operations, 1 output(s)"
    )


def test_a_function_of_light_operations_is_one_kernel_with_its_views() -> None:
    made = Building()
    hidden = made.linear(made.input(8, 16), 16)
    with made.function("rotate_half"):
        left = made.op("narrow", hidden, 1, 0, 8, shape=(8, 8))
        right = made.op("narrow", hidden, 1, 8, 8, shape=(8, 8))
        hidden = made.op("cat", (made.op("neg", right), left), shape=(8, 16))
    tree = decompose_trace(made.trace(made.linear(hidden, 4)))

    assert leaves(tree) == ["linear", "rotate_half", "linear"]
    assert len(tree.children[1].ops) == 4


def test_the_outermost_function_is_the_kernel() -> None:
    made = Building()
    hidden = made.linear(made.input(8, 16), 16)
    with made.function("outer"):
        hidden = made.op("relu", hidden)
        with made.function("inner"):
            hidden = made.op("exp", made.op("neg", hidden))
    tree = decompose_trace(made.trace(made.linear(hidden, 4)))

    assert leaves(tree) == ["linear", "outer", "linear"]


def test_a_function_with_heavy_work_or_too_many_operations_is_no_composite() -> None:
    made = Building()
    hidden = made.input(8, 16)
    with made.function("mixed"):
        hidden = made.op("relu", made.linear(hidden, 16))
    with made.function("long"):
        for _ in range(17):
            hidden = made.op("relu", hidden)
    tree = decompose_trace(made.trace(hidden))

    assert len(leaves(tree)) == 19


def test_a_model_of_light_operations_is_one_kernel_named_by_the_model() -> None:
    made = Building(model="53_HingeLoss")
    margin = made.op("rsub", made.op("mul", made.input(8), made.input(8)), 1)
    tree = decompose_trace(made.trace(made.op("mean", made.op("clamp", margin, min=0), shape=())))

    assert (tree.level, tree.name, tree.children) == ("kernel", "hinge_loss", ())


def test_views_and_factories_make_no_kernels_and_the_parent_keeps_them() -> None:
    made = Building()
    x = made.op("torch.Tensor.view", made.input(2, 4, 16), (8, 16), shape=(8, 16))
    out = made.linear(made.linear(x, 16), 4)
    out = made.op("torch.Tensor.view", out, (2, 4, 4), shape=(2, 4, 4))

    tree = decompose_trace(made.trace(out))

    assert leaves(tree) == ["linear", "linear"]
    assert tree.ops == (0, 3)


def test_a_constant_prologue_travels_into_the_only_kernel_that_uses_it() -> None:
    made = Building()
    scores = made.linear(made.input(8, 8), 8)
    mask = made.op("tril", made.op("ones", shape=(8, 8)))
    out = made.op("masked_fill", scores, made.op("eq", mask, 0, dtype="bool"), -1e9)

    tree = decompose_trace(made.trace(out))

    assert [len(child.ops) for child in tree.children] == [1, 4]
    assert tree.ops == ()


def test_a_constant_prologue_with_two_users_stays_in_the_parent() -> None:
    made = Building()
    x = made.linear(made.input(8, 8), 8)
    ones = made.op("ones", shape=(8, 8))
    out = made.linear(made.op("add", made.linear(made.op("add", x, ones), 8), ones), 8)

    tree = decompose_trace(made.trace(out))

    assert tree.ops == (1,)


def test_what_is_computed_on_a_constant_from_outside_is_computed_outside() -> None:
    made = Building()
    x, ones = made.input(8, 8), made.op("ones", shape=(8, 8))
    for name in "ab":
        with made.module(name, "Block"):
            is_none = made.op("eq", ones, 0, dtype="bool")
            x = made.op("masked_fill", made.linear(x, 8), is_none, -1e9)
            x = made.op("masked_fill", made.linear(x, 8), is_none, 0.0)

    tree = decompose_trace(made.trace(x))

    assert tree.ops == (0, 1, 6)
    assert [len(child.all_ops()) for child in tree.children] == [4, 4]


def test_work_on_a_buffer_joins_the_only_kernel_that_uses_it() -> None:
    made = Building()
    scores = made.linear(made.input(8, 8), 8)
    part = made.op("torch.Tensor.__getitem__", made.buffer(9, 9), shape=(8, 8))
    out = made.op("masked_fill", scores, made.op("eq", part, 0, dtype="bool"), -1e9)

    tree = decompose_trace(made.trace(out))

    assert leaves(tree) == ["linear", "masked_fill"]
    assert tree.children[1].ops == (1, 2, 3)


def test_the_view_of_a_parameter_travels_into_the_kernel() -> None:
    made = Building()
    x = made.linear(made.input(8, 4), 4)
    out = made.op("add", x, made.op("torch.Tensor.view", made.param(4), (1, 4), shape=(1, 4)))

    tree = decompose_trace(made.trace(out))

    assert tree.children[1].ops == (1, 2)


def test_random_operations_are_tagged_up_to_the_root() -> None:
    made = Building()
    x = made.linear(made.input(8, 4), 4)
    out = made.op("torch.nn.functional.dropout", x, 0.5, True, is_stochastic=True)

    tree = decompose_trace(made.trace(made.linear(out, 4)))

    assert [node.name for node in tree.walk() if "stochastic" in node.tags] == [
        "Example",
        "dropout",
    ]


def test_an_unknown_operation_is_an_opaque_kernel_that_joins_nothing() -> None:
    made = Building()
    out = made.op("mystery", made.linear(made.input(8, 4), 4), shape=(3,))

    tree = decompose_trace(made.trace(made.op("relu", out)))

    assert children(tree) == [("kernel", "linear"), ("kernel", "mystery"), ("kernel", "relu")]
    assert tree.children[1].opaque == "unknown operation torch.mystery"


def test_a_model_of_plumbing_alone_is_one_kernel() -> None:
    made = Building(model="flatten_only")
    out = made.op("flatten", made.input(2, 3), shape=(6,))

    tree = decompose_trace(made.trace(out))

    assert (tree.level, tree.name, tree.ops) == ("kernel", "flatten_only", (0,))


def test_a_module_with_a_working_child_is_no_composite() -> None:
    made = Building()
    x = made.linear(made.input(8, 16), 16)
    with made.module("act", "Act"):
        with made.module("relu", "ReLU", is_library=True):
            x = made.op("relu", x)
        x = made.op("square", x)

    assert leaves(decompose_trace(made.trace(made.linear(x, 4)))) == [
        "linear", "relu", "square", "linear",
    ]  # fmt: skip


def test_a_function_with_three_results_is_no_composite() -> None:
    made = Building()
    x = made.linear(made.input(8, 16), 16)
    with made.function("three"):
        parts = [made.op(fn, x) for fn in ("relu", "exp", "tanh")]

    tree = decompose_trace(made.trace(*parts))

    assert leaves(tree) == ["linear", "relu", "exp", "tanh"]


def test_an_idiom_stands_in_one_module_of_the_users() -> None:
    def names(*, is_library: bool) -> list[str]:
        made = Building()
        x = made.linear(made.input(8, 16), 16)
        with made.module("gate", "Gate", is_library=is_library):
            gate = made.op("sigmoid", x)
        return leaves(decompose_trace(made.trace(made.linear(made.op("mul", x, gate), 4))))

    assert names(is_library=True) == ["linear", "silu", "linear"]
    assert names(is_library=False) == ["linear", "sigmoid", "mul", "linear"]


def test_an_idiom_whose_inner_value_is_returned_stays_single_operations() -> None:
    made = Building()
    x = made.linear(made.input(8, 16), 16)
    gate = made.op("sigmoid", x)
    out = made.linear(made.op("mul", x, gate), 4)

    tree = decompose_trace(made.trace(out, gate))

    assert leaves(tree) == ["linear", "sigmoid", "mul", "linear"]


def test_work_on_a_buffer_that_is_returned_is_a_kernel_of_its_own() -> None:
    made = Building()
    x = made.linear(made.input(8, 8), 8)
    mask = made.op("eq", made.buffer(8, 8), 0, dtype="bool")
    out = made.op("masked_fill", x, mask, -1e9)

    assert leaves(decompose_trace(made.trace(out, mask))) == ["linear", "eq", "masked_fill"]


def test_a_constant_that_is_returned_stays_in_the_parent() -> None:
    made = Building()
    x = made.linear(made.input(8, 8), 8)
    ones = made.op("ones", shape=(8, 8))

    tree = decompose_trace(made.trace(made.op("add", x, ones), ones))

    assert tree.ops == (1,)


def test_a_model_of_named_activations_is_a_fusion_of_them() -> None:
    made = Building()
    out = made.op("tanh", made.op("relu", made.input(8, 16)))

    tree = decompose_trace(made.trace(out))

    assert (tree.level, leaves(tree)) == ("fusion", ["relu", "tanh"])


def _mlp(made: Building, *, is_cut: bool) -> Ref:
    """A gated layer: its gate and up from two products, or cut from one."""
    x = made.input(8, 16)
    if is_cut:
        both = made.linear(x, 64)
        gate = made.op("chunk", both, 2, dim=-1, shape=(8, 32), outs=2)
        up = Ref(made.ops[-1].outs[1])
    else:
        gate, up = made.linear(x, 32), made.linear(x, 32)
    with made.module("act", "SiLUActivation"):
        gate = made.op("torch.nn.functional.silu", gate)
    return made.linear(made.op("mul", gate, up), 16)


@pytest.mark.parametrize("is_cut", [True, False])
def test_silu_times_up_is_one_kernel_whatever_class_its_activation_has(*, is_cut: bool) -> None:
    made = Building()
    tree = decompose_trace(made.trace(_mlp(made, is_cut=is_cut)))

    found = [node for node in tree.walk() if node.name == "silu_and_mul"]

    assert [name for name in leaves(tree) if name != "linear"] == ["silu_and_mul"]
    fns = [made.ops[op].fn for op in found[0].ops]
    assert ("torch.chunk" in fns) == is_cut


def test_silu_times_a_weight_is_no_gate() -> None:
    made = Building()
    gate = made.op("torch.nn.functional.silu", made.linear(made.input(8, 16), 32))
    out = made.linear(made.op("mul", gate, made.param(8, 32)), 16)

    assert leaves(decompose_trace(made.trace(out))) == ["linear", "silu", "mul", "linear"]
