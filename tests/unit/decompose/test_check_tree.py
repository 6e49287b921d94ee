from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from flashinfer_bench.decompose.grouping import check_tree, decompose_trace, steps
from flashinfer_bench.decompose.ir import Node, OpTrace
from tests.unit.decompose.traces import Building


def _trace() -> OpTrace:
    """Two chains after one another, with a view between them."""
    made = Building(model="two_chains")
    x = made.op("relu", made.linear(made.input(4, 8), 8))
    x = made.op("torch.Tensor.view", x, (8, 4), shape=(8, 4))
    for _ in range(5):
        x = made.op("relu", made.linear(x, 4))
    return made.trace(x)


def _without_an_operation(tree: Node) -> Node:
    return replace(tree, ops=())


def _with_one_owned_twice(tree: Node) -> Node:
    return replace(tree, ops=(*tree.ops, 0))


def _with_a_stranger(tree: Node) -> Node:
    return replace(tree, ops=(*tree.ops, 99))


def _with_work_in_the_parent(tree: Node) -> Node:
    return replace(tree, ops=(0, 1, *tree.ops), children=tree.children[1:])


def _with_equal_ids(tree: Node) -> Node:
    first, second, *rest = tree.children
    return replace(tree, children=(first, replace(second, id=first.id), *rest))


def _backwards(tree: Node) -> Node:
    return replace(tree, children=tree.children[::-1])


def _tangled(tree: Node) -> Node:
    """One node of the first and the third chain needs the second, which needs it."""
    first, second, third, *rest = tree.children
    merged = replace(first, children=(*first.children, *third.children))
    return replace(tree, children=(merged, second, *rest))


def _with_a_kernel_that_has_children(tree: Node) -> Node:
    first, *rest = tree.children
    return replace(tree, children=(replace(first, level="kernel"), *rest))


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (_without_an_operation, "operation 2 (torch.Tensor.view) belongs to 0 nodes instead of one"),
        (_with_one_owned_twice, "operation 0 (torch.nn.functional.linear) belongs to 2 nodes"),
        (_with_a_stranger, "operation 99 is in the tree and not in the trace"),
        (_with_work_in_the_parent, "root: operation 1 (torch.relu) does work in a parent"),
        (_with_equal_ids, "2 nodes have the id 'fusion:linear_relu'"),
        (_backwards, "is listed before what it needs"),
        (_tangled, "needs what only runs after it"),
        (_with_a_kernel_that_has_children, "fusion:linear_relu: a kernel with children"),
    ],
)  # fmt: skip
def test_a_spoilt_tree_is_found(spoil: Callable[[Node], Node], fault: str) -> None:
    trace = _trace()
    tree = decompose_trace(trace)

    faults = check_tree(trace, spoil(tree))

    assert any(fault in each for each in faults)
    assert check_tree(trace, tree) == ()


def test_steps_put_plumbing_between_the_children_it_connects() -> None:
    trace = _trace()
    tree = decompose_trace(trace)

    order = [step if isinstance(step, int) else step.name for step in steps(trace, tree)]

    assert order == ["linear_relu", 2, *["linear_relu"] * 5]
