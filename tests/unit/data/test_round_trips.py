"""Whatever an entity holds comes back from JSON, and from the file it was written to."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flashinfer_bench.data import (
    Definition,
    DType,
    Evaluation,
    EvaluationStatus,
    Solution,
    Trace,
    TraceSet,
    Workload,
    append_jsonl_file,
    load_jsonl_file,
)
from flashinfer_bench.data.parsing import parse
from flashinfer_bench.data.rows import row_of_trace

LETTERS = st.characters(exclude_categories=["Cs"])
NAMES = st.text(LETTERS, min_size=1, max_size=8)
TEXTS = st.text(LETTERS, max_size=30)
LENGTHS = st.integers(0, 2**40)
TIMES = st.floats(0, 1e9) | st.just(math.inf)
ERRORS = st.floats(min_value=0) | st.just(math.nan)

INPUTS = st.one_of(
    st.just({}),
    st.builds(lambda dtype: {"type": "random", "dtype": dtype}, st.sampled_from(DType)),
    st.builds(
        lambda value: {"type": "scalar", "value": value},
        st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False),
    ),
    st.builds(
        lambda path, key: {"type": "safetensors", "path": path, "tensor_key": key}, NAMES, NAMES
    ),
)
WORKLOADS = st.builds(
    Workload,
    axes=st.dictionaries(NAMES, LENGTHS, max_size=3),
    inputs=st.dictionaries(NAMES, INPUTS, max_size=3),
)


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    axes = draw(
        st.dictionaries(
            NAMES, st.just({"type": "var"}) | st.builds(lambda n: {"value": n}, LENGTHS), min_size=1
        )
    )
    tensors = draw(st.lists(NAMES, unique=True, min_size=2, max_size=5))
    spec = st.fixed_dictionaries(
        {
            "shape": st.none() | st.lists(st.sampled_from(sorted(axes)), max_size=3),
            "dtype": st.sampled_from(DType),
        },
        optional={"role": st.sampled_from(["dynamic", "metadata", "static"]), "description": TEXTS},
    )
    return Definition(
        name=draw(NAMES),
        op_type=draw(NAMES),
        axes=axes,
        inputs={name: draw(spec) for name in tensors[1:]},
        outputs={tensors[0]: draw(spec)},
        reference="def run(*inputs): ...",
        tags=draw(st.lists(NAMES, max_size=2)),
        description=draw(st.none() | TEXTS),
    )


@st.composite
def solutions(draw: st.DrawFn) -> Solution:
    files = draw(
        st.dictionaries(st.from_regex(r"[a-z]{1,4}\.py", fullmatch=True), TEXTS, min_size=1)
    )
    return Solution.model_validate(
        {
            "name": draw(NAMES),
            "definition": draw(NAMES),
            "author": draw(NAMES),
            "spec": {
                "language": draw(st.sampled_from(["python", "triton", "cpp", "cuda", "tilelang"])),
                "target_hardware": ["cpu"],
                "entry_point": f"{next(iter(files))}::run",
                "binding": draw(st.sampled_from([None, "torch", "tvm-ffi"])),
                "destination_passing_style": draw(st.booleans()),
            },
            "sources": [{"path": path, "content": text} for path, text in files.items()],
        }
    )


@st.composite
def evaluations(draw: st.DrawFn) -> Evaluation:
    status = draw(st.sampled_from(EvaluationStatus))
    content: dict[str, Any] = {
        "status": status,
        "environment": {"hardware": draw(NAMES), "libs": draw(st.dictionaries(TEXTS, TEXTS))},
        "timestamp": draw(NAMES),
        "log": draw(TEXTS),
    }
    if status in {"PASSED", "INCORRECT_NUMERICAL"}:
        content["correctness"] = {
            "max_relative_error": draw(ERRORS),
            "max_absolute_error": draw(ERRORS),
            "extra": draw(st.none() | st.dictionaries(TEXTS, st.none() | TEXTS | st.integers())),
        }
    if status == "PASSED":
        content["performance"] = {
            "latency_ms": draw(TIMES),
            "speedup_factor": draw(st.none() | TIMES),
        }
    return Evaluation.model_validate(content)


TRACES = st.builds(
    Trace, definition=NAMES, workload=WORKLOADS, solution=NAMES, evaluation=evaluations()
) | st.builds(Trace, definition=NAMES, workload=WORKLOADS)


@given(definitions())
def test_definitions_come_back(definition: Definition) -> None:
    assert parse(Definition, definition.to_json()) == definition
    assert Definition.model_validate(definition.to_dict()) == definition


@given(WORKLOADS)
def test_workloads_come_back_with_the_same_uuid(workload: Workload) -> None:
    again = Workload.model_validate_json(workload.to_json())
    derived = Workload(axes=workload.axes, inputs=again.inputs)

    assert again == workload
    assert derived.uuid == workload.uuid


@given(solutions())
def test_solutions_come_back_with_the_same_hashes(solution: Solution) -> None:
    again = Solution.model_validate_json(solution.to_json())

    assert again.to_dict() == solution.to_dict()
    assert (again.hash(), again.legacy_hash()) == (solution.hash(), solution.legacy_hash())


@given(TRACES)
def test_traces_come_back_on_one_line(trace: Trace) -> None:
    line = trace.to_json()

    assert "\n" not in line
    assert parse(Trace, line).to_json() == line


@given(st.lists(TRACES, max_size=4))
@settings(max_examples=30)
def test_traces_come_back_from_a_file(traces: list[Trace]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.jsonl"
        for trace in traces:
            append_jsonl_file([trace], path)

        again = load_jsonl_file(Trace, path) if traces else []

    assert [each.to_json() for each in again] == [each.to_json() for each in traces]


@given(st.lists(TRACES, max_size=6))
@settings(max_examples=30)
def test_rows_of_a_file_are_rows_of_its_entities(traces: list[Trace]) -> None:
    with TemporaryDirectory() as folder:
        append_jsonl_file(traces, Path(folder) / "traces" / "t.jsonl")

        rows = list(TraceSet.from_path(folder).rows())

    expected = [row_of_trace(each, lambda _: (None, None)) for each in traces]
    assert sorted(map(repr, rows)) == sorted(repr(row) for row in expected if row is not None)
