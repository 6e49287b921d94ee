"""Which configurations a solution is tried on that no workload has."""

from __future__ import annotations

import random
from typing import Any

import pytest

from flashinfer_bench.bench.unseen_sizes import DrawnConfigurations, draw_unseen, size_bytes
from flashinfer_bench.data import Definition, Workload

PAGED = Definition.model_validate(
    {
        "name": "paged",
        "op_type": "elementwise",
        "axes": {
            "batch": {"type": "var"},
            "len_indptr": {"type": "var"},
            "pages": {"type": "var"},
            "n": {"type": "var"},
        },
        "constraints": ["len_indptr == batch + 1", "n % 64 == 0", "pages == indptr[-1]"],
        "inputs": {
            "x": {"shape": ["batch", "n"], "dtype": "float32"},
            "indptr": {"shape": ["len_indptr"], "dtype": "int32"},
            "table": {"shape": ["pages"], "dtype": "int32"},
        },
        "outputs": {"y": {"shape": ["batch", "n"], "dtype": "float32"}},
        "reference": "def run(x, indptr, table):\n    return x\n",
    }
)


def workload(batch: int, pages: int, n: int, *, total: int | str = "pages") -> Workload:
    indptr = {"type": "random", "distribution": {"type": "index_pointers", "total": total}}
    table = {"type": "random", "distribution": {"type": "page_table", "pages": "pages"}}
    axes = {"batch": batch, "len_indptr": batch + 1, "pages": pages, "n": n}
    inputs: dict[str, Any] = {"x": {"type": "random"}, "indptr": indptr, "table": table}
    return Workload(axes=axes, inputs=inputs)


SEEN = [workload(2, 64, 256), workload(16, 512, 1024)]


def drawn(
    seen: list[Workload], *, count: int = 40, seed: int = 1, definition: Definition = PAGED
) -> DrawnConfigurations:
    return draw_unseen(definition, seen, count=count, chance=random.Random(seed))


def test_sizes_are_new_and_hold_what_the_definition_asks_of_them() -> None:
    found = drawn(SEEN)

    axes = [each.axes for each in found.workloads]
    assert len(axes) == 40
    assert found.missing is None
    assert all(not PAGED.violated_constraints(each) for each in axes)
    assert all(each["len_indptr"] == each["batch"] + 1 for each in axes)
    assert len({tuple(each.values()) for each in (*axes, *(s.axes for s in SEEN))}) == 42


def test_lengths_lie_between_those_that_were_seen_and_sizes_near_them() -> None:
    found = drawn(SEEN)

    sizes = [size_bytes(PAGED, each) for each in found.workloads]
    smallest, largest = (size_bytes(PAGED, each) for each in SEEN)
    assert all(2 <= each.axes["batch"] <= 16 for each in found.workloads)
    assert all(256 <= each.axes["n"] <= 1024 for each in found.workloads)
    assert all(smallest // 2 <= size <= 2 * largest for size in sizes)


def test_of_one_seen_length_half_to_twice_is_drawn() -> None:
    found = drawn([workload(8, 64, 256)])

    batches = {each.axes["batch"] for each in found.workloads}
    assert min(batches) >= 4
    assert max(batches) <= 16
    assert len(batches) > 4


def test_an_axis_that_a_number_among_the_inputs_speaks_of_stays_as_it_is() -> None:
    found = drawn([workload(8, 64, 256, total=64)])

    assert found.workloads
    assert {each.axes["pages"] for each in found.workloads} == {64}


def test_floats_without_a_distribution_get_values_of_another_one_and_indices_do_not() -> None:
    found = drawn(SEEN)

    values = {getattr(each.inputs["x"].distribution, "type", None) for each in found.workloads}
    tables = {each.inputs["table"].distribution.type for each in found.workloads}
    assert values == {None, "uniform", "normal"}
    assert tables == {"page_table"}


def test_what_is_drawn_follows_from_the_seed_and_from_nothing_else() -> None:
    first, again, other = (drawn(SEEN, count=5, seed=seed) for seed in (1, 1, 2))

    assert first == again
    assert first != other


def test_stored_tensors_have_no_other_size_and_that_is_said() -> None:
    stored = {"type": "safetensors", "path": "x.safetensors", "tensor_key": "x"}
    fixed = SEEN[0].model_copy(update={"inputs": Workload(axes={}, inputs={"x": stored}).inputs})

    found = drawn([fixed])

    assert found == DrawnConfigurations(
        (), "all its workloads have stored tensors, whose sizes are fixed"
    )


def test_where_no_other_size_is_legal_that_is_said() -> None:
    only = PAGED.model_copy(update={"constraints": ["batch == 2", "pages == 64", "n == 256"]})
    only = only.model_copy(
        update={"constraints": [*only.constraints, "len_indptr == batch + 1"]}, deep=True
    )

    found = drawn([workload(2, 64, 256)], count=3, definition=only)

    assert found == DrawnConfigurations((), "no other legal sizes were found for 3 of 3")


@pytest.mark.parametrize("count", [0, 3])
def test_a_definition_without_variable_axes_has_one_size(count: int) -> None:
    axes = {name: {"type": "const", "value": 64} for name in PAGED.axes}
    fixed = Definition.model_validate({**PAGED.to_dict(), "axes": axes, "constraints": []})

    found = drawn([Workload(axes={}, inputs={})], count=count, definition=fixed)

    assert found == DrawnConfigurations((), "no axis of it is variable")
