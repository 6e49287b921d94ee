from __future__ import annotations

from flashinfer_bench.decompose.grouping import decompose_trace
from flashinfer_bench.decompose.ir import OpTrace
from flashinfer_bench.decompose.tree_text import tree_text
from tests.unit.decompose.traces import Building


def _trace() -> OpTrace:
    made = Building(model="3_Net")
    x = made.input(4, 8)
    for number in range(3):
        with made.module(f"blocks.{number}", "Block"):
            x = made.op("relu", made.linear(x, 8))
    return made.trace(made.linear(x, 2))


def test_equal_neighbours_are_one_line() -> None:
    trace = _trace()

    assert tree_text(trace, decompose_trace(trace)) == (
        "Net           layer   7 kernels  4×8 → 4×2  1.76 kFLOP  100.0%",
        "├─ block × 3  fusion  2 kernels  4×8 → 4×8  1.63 kFLOP  92.7%",
        "│  ├─ linear  kernel             4×8 → 4×8  1.54 kFLOP  87.3%",
        "│  └─ relu    kernel             4×8 → 4×8  96 FLOP     5.5%",
        "└─ linear     kernel             4×8 → 4×2  128 FLOP    7.3%",
    )


def test_identities_say_what_is_equal() -> None:
    trace = _trace()
    tree = decompose_trace(trace)

    lines = tree_text(trace, tree, {child.id: child.id for child in tree.children}, levels=1)

    assert [line.split()[1] for line in lines[1:]] == ["block", "block", "block", "linear"]


def test_measured_shares_take_the_place_of_arithmetic() -> None:
    trace = _trace()
    tree = decompose_trace(trace)
    shares = {child.id: 0.25 for child in tree.children}

    lines = tree_text(trace, tree, levels=1, shares=shares)

    assert [line.split()[-1] for line in lines[1:]] == ["75.0%", "25.0%"]


def test_a_depth_ends_the_drawing() -> None:
    trace = _trace()

    assert len(tree_text(trace, decompose_trace(trace), levels=0)) == 1
