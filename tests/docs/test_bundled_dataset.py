"""The bundled dataset keeps its promises: what it holds, and that its kernels are right."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flashinfer_bench.compile import build
from flashinfer_bench.compile.reference import reference_solution
from flashinfer_bench.data import ScalarInput, TraceSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashinfer_bench.data import Definition, Workload

torch = pytest.importorskip("torch", reason="the dataset's kernels take torch tensors")

ROOT = Path(__file__).parents[2] / "examples" / "dataset"
DEFINITIONS = ("gemm_n1024_k4096", "rmsnorm_h4096", "silu_and_mul_i14336", "softmax_v128256")
needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
each_definition = pytest.mark.parametrize("name", DEFINITIONS)


@pytest.fixture(scope="module")
def dataset() -> TraceSet:
    return TraceSet.from_path(str(ROOT))


def workloads_by_size(dataset: TraceSet, name: str) -> list[Workload]:
    return sorted((t.workload for t in dataset.workloads[name]), key=lambda w: sum(w.axes.values()))


def drawn(definition: Definition, workload: Workload, axes: Mapping[str, int]) -> list[Any]:
    """Standard normal tensors of the given sizes; scalars as the workload states them."""
    generator = torch.Generator().manual_seed(20)
    specs = zip(
        definition.inputs,
        definition.get_input_shapes(axes),
        definition.torch_input_dtypes,
        strict=True,
    )
    return [
        scalar.value
        if isinstance(scalar := workload.inputs[name], ScalarInput)
        else torch.randn(shape, generator=generator).to(dtype)
        for name, shape, dtype in specs
    ]


def expected(definition: Definition, inputs: list[Any], cache: Path) -> Any:
    reference = build(reference_solution(definition), definition.signature(), cache_root=cache)
    return reference.call_value_returning(*inputs)


def computed(dataset: TraceSet, solution: str, inputs: list[Any], like: Any, cache: Path) -> Any:
    """Call a solution on a destination full of NaN, so that what it leaves unwritten shows."""
    found = dataset.get_solution(solution)
    assert found is not None, f"the dataset holds no {solution}"
    signature = dataset.definitions[found.definition].signature()
    destination = torch.full_like(like, torch.nan)
    build(found, signature, cache_root=cache).call_destination_passing(*inputs, destination)
    return destination


def mismatches(got: Any, wanted: Any) -> int:
    """Count elements off by more than 1e-2, both absolutely and relatively; a NaN is one."""
    error = (got.double() - wanted.double()).abs()
    close = (error <= 1e-2) | (error / (wanted.double().abs() + 1e-8) <= 1e-2)
    return int((~close).sum())


def test_it_holds_one_definition_each_of_four_operations(dataset: TraceSet) -> None:
    op_types = sorted(definition.op_type for definition in dataset.definitions.values())

    assert sorted(dataset.definitions) == list(DEFINITIONS)
    assert op_types == ["gemm", "rmsnorm", "silu_and_mul", "softmax"]


def test_it_covers_float32_and_bfloat16(dataset: TraceSet) -> None:
    dtypes = {
        str(spec.dtype.value)
        for definition in dataset.definitions.values()
        for spec in definition.outputs.values()
    }

    assert dtypes == {"bfloat16", "float32"}


@each_definition
def test_every_axis_and_tensor_is_described(dataset: TraceSet, name: str) -> None:
    definition = dataset.definitions[name]

    parts = {**definition.axes, **definition.inputs, **definition.outputs}

    assert definition.description
    assert [part for part, spec in parts.items() if not spec.description] == []


@each_definition
def test_every_definition_has_at_least_three_workloads_that_fit_it(
    dataset: TraceSet, name: str
) -> None:
    workloads = workloads_by_size(dataset, name)

    for workload in workloads:
        dataset.definitions[name].require_workload(workload)

    assert len(workloads) >= 3


@each_definition
def test_a_workloads_uuid_is_the_one_derived_from_its_content(dataset: TraceSet, name: str) -> None:
    workloads = workloads_by_size(dataset, name)

    derived = [type(w)(axes=w.axes, inputs=w.inputs).uuid for w in workloads]

    assert [w.uuid for w in workloads] == derived
    assert {uuid.UUID(identifier).version for identifier in derived} == {5}


@each_definition
def test_every_definition_has_one_baseline_one_pytorch_and_one_cpp_solution(
    dataset: TraceSet, name: str
) -> None:
    authors = sorted(solution.author for solution in dataset.solutions[name])

    assert authors == ["baseline", "cpp", "pytorch"]


@each_definition
def test_a_reference_returns_the_declared_shape_and_dtype(
    dataset: TraceSet, name: str, tmp_path: Path
) -> None:
    definition = dataset.definitions[name]
    workload = workloads_by_size(dataset, name)[0]

    output = expected(definition, drawn(definition, workload, workload.axes), tmp_path)

    assert [list(output.shape)] == definition.get_output_shapes(workload.axes)
    assert [output.dtype] == definition.torch_output_dtypes


@each_definition
@pytest.mark.parametrize("author", ["baseline", "pytorch"])
def test_a_python_solution_agrees_with_the_reference(
    dataset: TraceSet, name: str, author: str, tmp_path: Path
) -> None:
    definition = dataset.definitions[name]
    workload = workloads_by_size(dataset, name)[0]
    inputs = drawn(definition, workload, workload.axes)
    wanted = expected(definition, inputs, tmp_path)

    got = computed(dataset, f"{name}_{author}", inputs, wanted, tmp_path)

    assert mismatches(got, wanted) == 0


@needs_a_compiler
@each_definition
def test_a_cpp_solution_agrees_with_the_reference_on_odd_row_counts(
    dataset: TraceSet, name: str, tmp_path: Path
) -> None:
    definition = dataset.definitions[name]
    workload = workloads_by_size(dataset, name)[0]

    wrong = {}
    for rows in (0, 1, 3, 7, 33):
        inputs = drawn(definition, workload, dict.fromkeys(definition.var_axes, rows))
        wanted = expected(definition, inputs, tmp_path)
        got = computed(dataset, f"{name}_cpp", inputs, wanted, tmp_path)
        wrong[rows] = mismatches(got, wanted)

    assert wrong == {0: 0, 1: 0, 3: 0, 7: 0, 33: 0}


@each_definition
def test_the_tolerance_notices_an_output_that_is_one_part_in_twenty_too_large(
    dataset: TraceSet, name: str, tmp_path: Path
) -> None:
    definition = dataset.definitions[name]
    workload = workloads_by_size(dataset, name)[0]

    wanted = expected(definition, drawn(definition, workload, workload.axes), tmp_path)

    assert mismatches(wanted * 1.05, wanted) > 0
