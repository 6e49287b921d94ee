from __future__ import annotations

from flashinfer_bench.decompose.grouping import decompose_trace
from flashinfer_bench.decompose.ir import Node, Ref
from tests.unit.decompose.traces import Building, children, leaves


def _padded(made: Building, out: Ref) -> Node:
    """The tree with enough heavy work after it that the model is no fusion itself."""
    for _ in range(6):
        out = made.linear(out, 8)
    return decompose_trace(made.trace(out))


def test_a_chain_is_one_fusion_until_it_meets_heavy_work() -> None:
    made = Building()
    out = made.linear(made.input(4, 8), 8)
    out = made.op("torch.nn.functional.layer_norm", made.op("relu", out), (8,))
    tree = _padded(made, out)

    assert children(tree)[:2] == [("fusion", "linear_relu_layer_norm"), ("kernel", "linear")]
    assert tree.children[0].reason == "chain: linear → relu → layer_norm"


def test_a_chain_has_at_most_five_kernels() -> None:
    made = Building()
    out = made.linear(made.input(4, 8), 8)
    for fn in ("relu", "tanh", "relu", "tanh", "relu", "tanh"):
        out = made.op(fn, out)
    tree = _padded(made, out)

    assert children(tree)[:2] == [
        ("fusion", "linear_relu_tanh_relu_tanh"),
        ("fusion", "relu_tanh"),
    ]


def test_a_value_with_two_users_ends_a_chain() -> None:
    made = Building()
    out = made.linear(made.input(4, 8), 8)
    one, other = made.op("relu", out), made.op("exp", out)
    tree = _padded(made, made.op("cat", (one, other), shape=(4, 8)))

    assert children(tree)[:4] == [(("kernel"), name) for name in ("linear", "relu", "exp", "cat")]


def test_a_residual_starts_a_new_chain_and_a_gate_of_another_shape_does_not() -> None:
    made = Building()
    x = made.input(4, 8)
    scaled = made.op("mul", made.linear(x, 8), made.input(4, 1))
    tree = _padded(made, made.op("relu", made.op("add", scaled, x)))

    assert children(tree)[:2] == [("fusion", "linear_mul"), ("fusion", "add_relu")]


def test_a_chain_goes_on_after_a_pool_only_elementwise() -> None:
    made = Building()
    x = made.op("torch.nn.functional.max_pool2d", made.linear(made.input(4, 8), 8), 2)
    x = made.op("relu", x)
    x = made.op("torch.nn.functional.max_pool2d", x, 2)
    tree = _padded(made, made.op("torch.softmax", x, -1))

    assert children(tree)[:2] == [
        ("fusion", "linear_max_pool2d_relu_max_pool2d"),
        ("kernel", "softmax"),
    ]


def test_a_returned_value_ends_a_chain() -> None:
    made = Building()
    out = made.linear(made.input(4, 8), 8)
    last = made.op("relu", out)
    for _ in range(6):
        last = made.linear(last, 8)

    tree = decompose_trace(made.trace(out, last))

    assert children(tree)[:2] == [("kernel", "linear"), ("kernel", "relu")]


def test_views_between_the_kernels_of_a_chain_belong_to_it_and_views_after_it_do_not() -> None:
    made = Building()
    x = made.op("torch.Tensor.view", made.linear(made.input(4, 8), 8), (8, 4), shape=(8, 4))
    out = made.op("torch.Tensor.view", made.op("relu", x), (4, 8), shape=(4, 8))
    tree = _padded(made, out)

    assert tree.children[0].ops == (1,)
    assert tree.ops == (3,)


def _attention(made: Building, gate: str, *, is_scaled: bool = True) -> Ref:
    q, k, v = (made.linear(made.input(2, 6, 8), 8) for _ in range(3))
    turned = made.op("torch.transpose", k, -2, -1, shape=(2, 8, 6))
    scores = made.op("matmul", q, turned, shape=(2, 6, 6))
    if is_scaled:
        scores = made.op("mul", scores, 0.35)
    weights = made.op(gate, scores, -1) if gate == "softmax" else made.op(gate, scores)
    return made.op("matmul", weights, v, shape=(2, 6, 8))


def test_the_core_of_attention_is_one_fusion() -> None:
    made = Building()
    tree = _padded(made, _attention(made, "softmax"))

    core = next(child for child in tree.children if child.level == "fusion")

    assert core.name == "attention"
    assert leaves(core) == ["matmul", "mul", "softmax", "matmul"]


def test_attention_with_relu_needs_a_scale_to_be_told_from_two_products() -> None:
    scaled, bare = Building(), Building()
    with_scale = _padded(scaled, _attention(scaled, "relu"))
    without = _padded(bare, _attention(bare, "relu", is_scaled=False))

    assert ("fusion", "attention") in children(with_scale)
    assert ("fusion", "attention") not in children(without)


def test_a_product_with_a_weight_is_no_attention() -> None:
    made = Building()
    x = made.op("matmul", made.input(4, 8), made.param(8, 8), shape=(4, 8))
    x = made.op("matmul", made.op("softmax", x, -1), made.param(8, 8), shape=(4, 8))
    tree = _padded(made, x)

    assert children(tree)[0] == ("fusion", "matmul_softmax")


def test_attention_whose_weights_also_lead_to_its_values_is_no_fusion() -> None:
    made = Building()
    q, k, v = (made.linear(made.input(6, 6), 6) for _ in range(3))
    weights = made.op("softmax", made.op("matmul", q, k), -1)
    tree = _padded(made, made.op("matmul", weights, made.op("mul", v, weights)))

    assert ("fusion", "attention") not in children(tree)
    assert ("fusion", "matmul_softmax") in children(tree)


def _normed(made: Building, x: Ref) -> Ref:
    rows, _ = made.values[x.id].shape
    mean = made.op("mean", made.op("pow", x, 2), -1, shape=(rows, 1), keepdim=True)
    normal = made.op("mul", x, made.op("rsqrt", made.op("add", mean, 1e-6)))
    return made.op("mul", normal, made.param(8))


def test_a_residual_and_the_norm_of_its_sum_are_one_fusion() -> None:
    made = Building()
    x = made.input(4, 8)
    total = made.op("add", x, made.linear(x, 8))
    out = made.linear(_normed(made, total), 8)
    tree = _padded(made, made.op("add", total, out))

    (fused,) = [child for child in tree.children if child.level == "fusion" and child.tags]

    assert (fused.name, [child.name for child in fused.children]) == (
        "fused_add_rmsnorm",
        ["add", "rms_norm"],
    )


def test_an_addition_whose_sum_only_the_norm_reads_is_left_to_chains() -> None:
    made = Building()
    x = made.input(4, 8)
    tree = _padded(made, _normed(made, made.op("add", x, made.linear(x, 8))))

    assert not any(child.tags for child in tree.children if child.level == "fusion")
