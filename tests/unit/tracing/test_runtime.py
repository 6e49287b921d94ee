"""What of a call ends up in the dataset, what does not, and what that costs the caller."""

from __future__ import annotations

import logging
import re
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import flashinfer_bench as fib
from flashinfer_bench.data import (
    Definition,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    TraceSet,
)
from flashinfer_bench.data.blobs import load_tensors
from flashinfer_bench.intercept import CHAIN, PATCHES
from flashinfer_bench.tracing import (
    FilterPolicy,
    PolicyRegistry,
    TracingConfig,
    TracingConfigRegistry,
    TracingRuntime,
    WorkloadEntry,
    snapshot,
)
from flashinfer_bench.tracing.recorder import CallRecorder

from .conftest import GATHER, add_definition, blobs, call, lines

ALL = TracingConfig(input_dump_policy="dump_all")
BY_SIZE = TracingConfig(input_dump_policy="dump_all", filter_policy="keep_first_k_by_axes")


def collected(runtime: TracingRuntime, *calls: tuple[Any, ...]) -> None:
    for args in calls:
        runtime.collect("gather_d4", args)
    runtime.flush()


def test_a_call_becomes_a_workload_with_its_tensors_and_its_scalars(
    trace_set: TraceSet, gather: Definition, tmp_path: Path
) -> None:
    x, indices, _ = call()

    collected(TracingRuntime(trace_set, ALL), (x, indices, 0.5))

    (line,) = lines(tmp_path, gather)
    assert line.is_workload_trace()
    assert line.workload.axes == {"rows": 3, "picked": 2}
    assert line.workload.inputs["scale"] == ScalarInput(value=0.5)
    stored = line.workload.inputs["x"]
    assert isinstance(stored, SafetensorsInput)
    assert stored.path == (
        f"blob/workloads/gather/gather_d4/gather_d4_{line.workload.uuid}.safetensors"
    )
    tensors = load_tensors(tmp_path / stored.path)
    assert torch.equal(tensors["x"], x)
    assert torch.equal(tensors["indices"], indices)


def test_what_is_not_dumped_is_random_but_a_scalar_keeps_its_value(
    trace_set: TraceSet, gather: Definition, tmp_path: Path
) -> None:
    collected(TracingRuntime(trace_set, TracingConfig("dump_int")), call())

    (line,) = lines(tmp_path, gather)
    assert line.workload.inputs["x"] == RandomInput()
    assert isinstance(line.workload.inputs["indices"], SafetensorsInput)
    assert line.workload.inputs["scale"] == ScalarInput(value=0.5)


@pytest.mark.parametrize(("given", "recorded"), [(2, 2.0), (True, 1.0), (torch.tensor(0.25), 0.25)])
def test_a_scalar_is_recorded_in_the_kind_of_its_dtype(
    trace_set: TraceSet, gather: Definition, tmp_path: Path, given: Any, recorded: float
) -> None:
    collected(TracingRuntime(trace_set, TracingConfig()), call(scale=given))

    (line,) = lines(tmp_path, gather)
    source = line.workload.inputs["scale"]
    assert isinstance(source, ScalarInput)
    assert source.value == recorded
    assert type(source.value) is float


def test_recorded_workloads_fit_their_definition_and_load_again(
    trace_set: TraceSet, gather: Definition, tmp_path: Path
) -> None:
    collected(TracingRuntime(trace_set, ALL), call(), call(rows=5))

    loaded = TraceSet.from_path(tmp_path).workloads["gather_d4"]

    assert [trace.workload.axes["rows"] for trace in loaded] == [3, 5]
    for trace in loaded:
        gather.require_workload(trace.workload)


def test_lists_of_numbers_become_tensors_of_the_declared_dtype(
    trace_set: TraceSet, gather: Definition, tmp_path: Path
) -> None:
    x, _, scale = call()

    collected(TracingRuntime(trace_set, ALL), (x, [2, 0, 1], scale))

    (line,) = lines(tmp_path, gather)
    assert line.workload.axes["picked"] == 3
    stored = load_tensors(blobs(tmp_path)[0])["indices"]
    assert stored.dtype is torch.int32
    assert stored.tolist() == [2, 0, 1]


def test_outputs_to_write_into_are_left_out(
    trace_set: TraceSet, gather: Definition, tmp_path: Path
) -> None:
    collected(TracingRuntime(trace_set, ALL), (*call(), torch.empty(2, 4)))

    (line,) = lines(tmp_path, gather)
    assert set(line.workload.inputs) == {"x", "indices", "scale"}


def test_keyword_arguments_are_merged_and_strange_ones_dropped(
    trace_set: TraceSet, gather: Definition, tmp_path: Path
) -> None:
    x, indices, scale = call()
    runtime = TracingRuntime(trace_set, BY_SIZE)

    for _ in range(2):
        runtime.collect("gather_d4", (x,), {"scale": scale, "indices": indices, "page_size": 1})
    runtime.flush()

    assert len(lines(tmp_path, gather)) == 1


def test_what_the_caller_changes_afterwards_is_not_recorded(
    trace_set: TraceSet, tmp_path: Path
) -> None:
    x, indices, scale = call()
    runtime = TracingRuntime(trace_set, ALL)

    runtime.collect("gather_d4", (x, indices, scale))
    x.zero_()
    runtime.flush()

    assert torch.equal(load_tensors(blobs(tmp_path)[0])["x"], torch.ones(3, 4))


def test_strided_tensors_with_gradients_are_stored_by_value(
    trace_set: TraceSet, tmp_path: Path
) -> None:
    x = torch.arange(12.0).reshape(4, 3).t().requires_grad_()

    collected(TracingRuntime(trace_set, ALL), (x, *call()[1:]))

    assert torch.equal(load_tensors(blobs(tmp_path)[0])["x"], x.detach())


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "0 arguments for 3 inputs and 1 outputs"),
        ((*call(), torch.empty(2, 4), 1), "5 arguments"),
        ((torch.ones(3), *call()[1:]), "needs shape"),
        ((torch.ones(3, 5), *call()[1:]), r"'x' has shape \[3, 5\], not \[3, 4\]"),
        ((torch.ones(3, 4).half(), *call()[1:]), "'x' is float16, not float32"),
        (("text", *call()[1:]), "'x' is a str, not a tensor"),
        ((*call()[:2], "text"), "'scale' is a str, not a number"),
        ((*call()[:2], torch.ones(2)), "'scale' has more than one element"),
        ((torch.ones(3, 4, device="meta"), *call()[1:]), "'x' is a .* tensor on meta"),
    ],
)
def test_a_bad_call_is_logged_once_and_recorded_not_at_all(
    trace_set: TraceSet,
    caplog: pytest.LogCaptureFixture,
    args: tuple[Any, ...],
    said: str,
) -> None:
    with caplog.at_level(logging.WARNING, "flashinfer_bench.tracing"):
        runtime = TracingRuntime(trace_set, ALL)
        collected(runtime, args, args)

    assert len(caplog.records) == 1
    assert re.match(f"gather_d4: a call was not traced: .*{said}", caplog.records[0].message)
    assert not runtime.written.workloads


def test_an_unknown_definition_is_named_and_not_an_error(trace_set: TraceSet) -> None:
    runtime = TracingRuntime(trace_set, ALL)

    runtime.collect("gemm_n4096", call())
    runtime.flush()

    assert runtime.absent == ["gemm_n4096"]
    assert not runtime.written.workloads


def test_a_list_of_inputs_that_names_none_raises_at_the_call(trace_set: TraceSet) -> None:
    runtime = TracingRuntime(trace_set, TracingConfig(["indicse"]))

    with pytest.raises(KeyError, match="did you mean 'indices'"):
        runtime.collect("gather_d4", call())


def test_a_dropped_call_is_never_copied(
    trace_set: TraceSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[int] = []
    original = snapshot.copied

    def counted(tensors: Any) -> Any:
        copies.append(len(tensors))
        return original(tensors)

    monkeypatch.setattr("flashinfer_bench.tracing.recorder.copied", counted)

    collected(TracingRuntime(trace_set, BY_SIZE), *[call()] * 5, call(rows=9), call(rows=9))

    assert copies == [2, 2]


def test_a_call_that_is_dropped_again_is_settled_by_its_shapes(gather: Definition) -> None:
    recorder = CallRecorder(gather, BY_SIZE)

    first = recorder.take(call(), {}, 0)
    second = recorder.take(call(), {}, 1)

    assert first is not None
    assert second is None
    assert recorder.has_settled(call())
    assert not recorder.has_settled(call(rows=4))
    assert not recorder.has_settled(())


def test_the_same_content_is_written_once_also_by_another_runtime(
    trace_set: TraceSet, gather: Definition, tmp_path: Path
) -> None:
    one = TracingRuntime(trace_set, ALL)
    collected(one, call(), call(), call(scale=0.25))
    other = TracingRuntime(TraceSet.from_path(tmp_path), ALL)
    collected(other, call(), call(rows=7))

    assert len(lines(tmp_path, gather)) == len(blobs(tmp_path)) == 3
    assert one.written.repeated["gather_d4"] == other.written.repeated["gather_d4"] == 1
    assert one.written.workloads["gather_d4"] == 2


def test_without_dumps_a_repeated_call_is_settled_but_a_new_scalar_is_not(
    trace_set: TraceSet, gather: Definition, tmp_path: Path
) -> None:
    runtime = TracingRuntime(trace_set, TracingConfig())

    collected(runtime, call(), call(), call(scale=2.0), call(scale=2.0))

    scales = [line.workload.inputs["scale"] for line in lines(tmp_path, gather)]
    assert scales == [ScalarInput(value=0.5), ScalarInput(value=2.0)]
    assert not runtime.written.repeated


def test_a_flush_lets_keep_first_k_keep_k_more(
    trace_set: TraceSet, gather: Definition, tmp_path: Path
) -> None:
    config = TracingConfig(filter_policy="keep_first_k", filter_policy_kwargs={"k": 1})
    runtime = TracingRuntime(trace_set, config)

    collected(runtime, call(1), call(2))
    collected(runtime, call(3), call(4))

    assert [line.workload.axes["rows"] for line in lines(tmp_path, gather)] == [1, 3]


def test_a_dict_of_settings_limits_tracing_to_its_keys(trace_set: TraceSet, tmp_path: Path) -> None:
    other = Definition.model_validate({**GATHER, "name": "gather_other"})
    trace_set.definitions["gather_other"] = other
    runtime = TracingRuntime(trace_set, {"gather_other": TracingConfig()})

    runtime.collect("gather_d4", call())
    runtime.collect("gather_other", call())
    runtime.flush()

    assert dict(runtime.written.workloads) == {"gather_other": 1}


def test_definitions_and_runtimes_have_policies_of_their_own(trace_set: TraceSet) -> None:
    other = Definition.model_validate({**GATHER, "name": "gather_other"})
    trace_set.definitions["gather_other"] = other
    config = TracingConfig(filter_policy="keep_first")
    one, two = TracingRuntime(trace_set, config), TracingRuntime(trace_set, config)

    one.collect("gather_d4", call(1))
    one.collect("gather_other", call(1))
    two.collect("gather_d4", call(2))
    one.flush()
    two.flush()

    assert dict(one.written.workloads) == {"gather_d4": 1, "gather_other": 1}
    assert dict(two.written.workloads) == {"gather_d4": 1}


def test_a_definition_added_later_is_traced_in_memory_and_on_disk(
    trace_set: TraceSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flashinfer_bench.tracing.definitions._LOOK_AGAIN_S", 0.0)
    runtime = TracingRuntime(trace_set, TracingConfig())
    late, later = (
        Definition.model_validate({**GATHER, "name": name}) for name in ("late", "later")
    )
    runtime.collect("late", call())
    runtime.collect("later", call())

    trace_set.definitions["late"] = late
    add_definition(tmp_path, later)
    runtime.collect("late", call())
    runtime.collect("later", call())
    runtime.flush()

    assert dict(runtime.written.workloads) == {"late": 1, "later": 1}
    assert runtime.absent == []


def test_a_policy_that_chooses_afterwards_is_asked_at_the_flush(
    trace_set: TraceSet, gather: Definition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Largest(FilterPolicy):
        def __init__(self) -> None:
            self.seen: list[WorkloadEntry] = []

        def submit(self, entry: WorkloadEntry) -> None:
            self.seen.append(entry)

        def drain(self) -> list[WorkloadEntry]:
            seen, self.seen = self.seen, []
            return sorted(seen, key=lambda entry: entry.axes["rows"])[-1:]

    monkeypatch.setitem(PolicyRegistry._filters, "largest", Largest)
    runtime = TracingRuntime(trace_set, TracingConfig("dump_all", filter_policy="largest"))

    collected(runtime, call(2), call(8), call(4))

    assert [line.workload.axes["rows"] for line in lines(tmp_path, gather)] == [8]


def test_calls_under_graph_capture_are_skipped_with_one_warning(
    trace_set: TraceSet, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flashinfer_bench.tracing.runtime.is_captured", lambda _: True)

    with caplog.at_level(logging.WARNING, "flashinfer_bench.tracing"):
        runtime = TracingRuntime(trace_set, ALL)
        collected(runtime, call(), call())

    assert [record.message for record in caplog.records] == [
        "calls under CUDA-graph capture are not traced"
    ]
    assert not runtime.written.workloads


def test_a_dataset_in_memory_cannot_be_traced_into() -> None:
    with pytest.raises(ValueError, match="tracing needs a dataset with a folder"):
        TracingRuntime(TraceSet())


# Starting and stopping


def decorated() -> Any:
    """A function whose calls go through the chain."""

    def run(x: torch.Tensor, indices: torch.Tensor, scale: float) -> torch.Tensor:
        return x[indices.long() % len(x)] * scale

    return lambda *args: CHAIN.call("gather_d4", args, {}, run)


def test_only_what_is_called_between_start_and_stop_is_recorded(
    trace_set: TraceSet, gather: Definition, tmp_path: Path
) -> None:
    run = decorated()
    run(*call(1))
    with TracingRuntime(trace_set, TracingConfig()):
        answer = run(*call(2))
    run(*call(3))

    assert torch.equal(answer, torch.full((2, 4), 0.5))
    assert [line.workload.axes["rows"] for line in lines(tmp_path, gather)] == [2]
    assert not CHAIN.active


def test_enable_and_disable_go_by_the_dataset_of_the_environment(
    trace_set: TraceSet, gather: Definition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIB_DATASET_PATH", str(tmp_path))

    runtime = fib.enable_tracing()
    decorated()(*call())
    fib.disable_tracing()
    fib.disable_tracing()  # nothing is active: nothing happens

    assert TracingRuntime.get_instance() is None
    assert runtime.written.workloads["gather_d4"] == len(lines(tmp_path, gather)) == 1


@pytest.mark.parametrize(
    "configs",
    [
        None,
        TracingConfig(),
        {"gather_d4": TracingConfig()},
        TracingConfigRegistry(TracingConfig()),
    ],
)
def test_every_form_of_settings_is_accepted(
    trace_set: TraceSet, gather: Definition, tmp_path: Path, configs: Any
) -> None:
    with fib.enable_tracing(tmp_path, configs):
        decorated()(*call())

    assert len(lines(tmp_path, gather)) == 1


def test_settings_of_another_kind_are_refused(tmp_path: Path, trace_set: TraceSet) -> None:
    with pytest.raises(ValueError, match="tracing_config is a int; give a TracingConfig"):
        fib.enable_tracing(tmp_path, 3)  # type: ignore[arg-type]


def test_nested_runtimes_record_in_the_innermost_and_stop_newest_first(
    tmp_path: Path, gather: Definition
) -> None:
    for name in ("outer", "inner"):
        add_definition(tmp_path / name, gather)
    run = decorated()

    with fib.enable_tracing(tmp_path / "outer") as outer:
        run(*call(1))
        inner = fib.enable_tracing(tmp_path / "inner")
        run(*call(2))
        with pytest.raises(RuntimeError, match="LIFO"):
            outer.stop()
        inner.stop()
        run(*call(3))

    assert [line.workload.axes["rows"] for line in lines(tmp_path / "outer", gather)] == [1, 3]
    assert [line.workload.axes["rows"] for line in lines(tmp_path / "inner", gather)] == [2]


def test_starting_the_runtime_in_force_again_changes_nothing(trace_set: TraceSet) -> None:
    runtime = TracingRuntime(trace_set).start()
    try:
        assert runtime.start() is TracingRuntime.get_instance()
    finally:
        runtime.stop()

    assert TracingRuntime.get_instance() is None


def test_nothing_stays_patched_after_the_stop(trace_set: TraceSet) -> None:
    before = PATCHES.installed()
    linear = torch.nn.functional.linear

    with TracingRuntime(trace_set):
        pass

    assert PATCHES.installed() == before
    assert torch.nn.functional.linear is linear


def test_an_exception_inside_a_kernel_passes_and_the_call_is_recorded(
    trace_set: TraceSet, gather: Definition, tmp_path: Path
) -> None:
    def broken(*_: object) -> None:
        raise ArithmeticError("inside")

    with (
        TracingRuntime(trace_set, TracingConfig()),
        pytest.raises(ArithmeticError, match="inside"),
    ):
        CHAIN.call("gather_d4", call(), {}, broken)

    assert len(lines(tmp_path, gather)) == 1


def test_threads_that_trace_at_once_lose_nothing(
    trace_set: TraceSet, gather: Definition, tmp_path: Path
) -> None:
    config = TracingConfig(
        "dump_all", filter_policy="keep_first_k_by_axes", filter_policy_kwargs={"k": 2}
    )
    run = decorated()

    def work(thread: int) -> None:
        for rows in range(1, 31):
            run(torch.full((rows, 4), float(thread)), *call()[1:])

    with TracingRuntime(trace_set, config):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    rows = [line.workload.axes["rows"] for line in lines(tmp_path, gather)]
    assert sorted(rows) == sorted([*range(1, 31)] * 2)


def test_calls_of_torchs_own_functions_are_traced_unless_no_adapter_is_wanted(
    tmp_path: Path,
) -> None:
    gemm = Definition.model_validate(
        {
            "name": "gemm_n5_k4",
            "op_type": "gemm",
            "axes": {
                "M": {"type": "var"},
                "N": {"type": "const", "value": 5},
                "K": {"type": "const", "value": 4},
            },
            "inputs": {
                "A": {"shape": ["M", "K"], "dtype": "float32"},
                "B": {"shape": ["N", "K"], "dtype": "float32"},
            },
            "outputs": {"C": {"shape": ["M", "N"], "dtype": "float32"}},
            "reference": "def run(A, B):\n    return A @ B.T\n",
        }
    )
    add_definition(tmp_path, gemm)
    layer = torch.nn.Linear(4, 5, bias=False)

    with fib.enable_tracing(tmp_path):
        layer(torch.ones(3, 4))
    with fib.enable_tracing(tmp_path, adapters=()):
        layer(torch.ones(7, 4))

    assert [line.workload.axes["M"] for line in lines(tmp_path, gemm)] == [3]


def test_of_floats_that_are_not_written_down_a_few_figures_stay(
    trace_set: TraceSet, gather: Definition, tmp_path: Path
) -> None:
    x = torch.tensor([[0.0, 0, 1, -3], [float("-inf"), 1, 1, 1], [1, 1, 1, 1]])

    collected(
        TracingRuntime(trace_set, TracingConfig(input_dump_policy="dump_int")), (x, call()[1], 0.5)
    )

    (line,) = lines(tmp_path, gather)
    kept = x[x.isfinite()]
    assert set(line.workload.observed) == {"x"}  # indices are written down
    assert line.workload.observed["x"].to_dict() == {
        "mean": pytest.approx(kept.mean().item(), rel=1e-5),
        "std": pytest.approx(kept.std(correction=0).item(), rel=1e-5),
        "largest": 3.0,
        "zeros": pytest.approx(2 / 11, rel=1e-5),
    }
