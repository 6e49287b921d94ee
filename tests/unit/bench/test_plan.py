from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.bench import BenchmarkConfig
from flashinfer_bench.bench.jobs import Target
from flashinfer_bench.bench.outcomes import Crashed, Outcome
from flashinfer_bench.bench.plan import (
    Plan,
    Selection,
    is_stand_in,
    jobs_for,
    plan,
    plan_for_all,
    skip_reason,
)
from flashinfer_bench.bench.record import record
from flashinfer_bench.bench.resuming import Resume
from flashinfer_bench.data import (
    Definition,
    Solution,
    SourceFile,
    SupportedLanguages,
    Trace,
    TraceSet,
    Workload,
    rows,
)
from flashinfer_bench.errors import UnknownNameError, UsageError
from tests.flow.kernels import HONEST, INCREMENT, solution, write_dataset
from tests.unit.bench.values import CPU, RUN, finished, passed

H100 = Target("cuda", "NVIDIA H100 80GB HBM3", threads=2)
CRASHED = Crashed("its process was ended by SIGSEGV", "")


def named(name: str, op_type: str = "elementwise") -> Definition:
    return INCREMENT.model_copy(update={"name": name, "op_type": op_type})


def targeting(*hardware: str, language: str = "python") -> Solution:
    made = solution(HONEST)
    spec = made.spec.model_copy(update={"target_hardware": list(hardware), "language": language})
    return made.model_copy(update={"spec": spec})


def workload(definition: str, size: int) -> Trace:
    inputs = {"x": {"type": "random"}}
    sized = Workload(axes={"n": size}, inputs=inputs, uuid=f"{definition}-{size}")
    return Trace(definition=definition, workload=sized)


@pytest.fixture
def store() -> TraceSet:
    """Two definitions with two solutions each, and two workloads each."""
    definitions = [named("add_one", "elementwise"), named("gemm_n128", "gemm")]
    names = [each.name for each in definitions]
    return TraceSet(
        definitions={each.name: each for each in definitions},
        solutions={
            name: [
                solution(HONEST, name=f"{name}_fast", definition=name, author="ann"),
                solution(HONEST + "#", name=f"{name}_slow", definition=name, author="bob"),
            ]
            for name in names
        },
        workloads={name: [workload(name, 8), workload(name, 16)] for name in names},
    )


def jobs_of(planned: Plan) -> list[tuple[str, int]]:
    return [(job.solution.name, job.workload.axes["n"]) for job in planned.jobs]


def solutions_of(planned: Plan) -> list[str]:
    return list(dict.fromkeys(job.solution.name for job in planned.jobs))


def test_everything_runs_in_the_order_of_the_dataset(store: TraceSet) -> None:
    planned = plan(store, BenchmarkConfig(), CPU)

    assert jobs_of(planned) == [
        ("add_one_fast", 8),
        ("add_one_fast", 16),
        ("add_one_slow", 8),
        ("add_one_slow", 16),
        ("gemm_n128_fast", 8),
        ("gemm_n128_fast", 16),
        ("gemm_n128_slow", 8),
        ("gemm_n128_slow", 16),
    ]
    assert (planned.skipped, planned.warnings, planned.done_count) == ((), (), 0)


@pytest.fixture
def classed() -> TraceSet:
    """One solution; a small, a full and an unclassed workload."""
    sizes = {8: "small", 16: None, 4096: "full"}
    workloads = [
        Trace(
            definition="add_one",
            workload=workload("add_one", size).workload.model_copy(update={"size_class": name}),
        )
        for size, name in sizes.items()
    ]
    return TraceSet(
        definitions={"add_one": named("add_one")},
        solutions={
            "add_one": [targeting("cpu", "cuda").model_copy(update={"definition": "add_one"})]
        },
        workloads={"add_one": workloads},
    )


@pytest.mark.parametrize(
    ("config", "target", "name", "sizes"),
    [
        (BenchmarkConfig(), CPU, "small", [8, 16]),
        (BenchmarkConfig(), H100, "full", [16, 4096]),
        (BenchmarkConfig(workload_class="full"), CPU, "full", [16, 4096]),
        (BenchmarkConfig(workload_class="small"), H100, "small", [8, 16]),
        (BenchmarkConfig(workload_class="all"), CPU, "all", [8, 16, 4096]),
        (BenchmarkConfig(workloads=["add_one-4096"]), CPU, "all", [4096]),
        (BenchmarkConfig(workloads=["add_one-*"], workload_class="full"), CPU, "full", [16, 4096]),
    ],
)
def test_the_class_of_workloads_is_the_devices_unless_one_or_a_workload_is_named(
    classed: TraceSet, config: BenchmarkConfig, target: Target, name: str, sizes: list[int]
) -> None:
    planned = plan(classed, config, target)

    assert [size for _, size in jobs_of(planned)] == sizes
    assert planned.workload_class == name


def test_a_plan_counts_what_another_class_would_add(classed: TraceSet) -> None:
    assert plan(classed, BenchmarkConfig(), CPU).other_class_count == 1
    assert plan(classed, BenchmarkConfig(workload_class="all"), CPU).other_class_count == 0


def test_a_definition_without_workloads_of_the_class_is_remarked_on(classed: TraceSet) -> None:
    classed.workloads["add_one"] = classed.workloads["add_one"][:1]

    planned = plan(classed, BenchmarkConfig(workload_class="full"), CPU)

    assert planned.jobs == ()
    assert planned.warnings == ("add_one has only workloads of another class; it is left out",)


@pytest.mark.parametrize(
    ("language", "target", "counts"),
    [
        ("triton", CPU, (1, 3, 1)),
        ("tilelang", CPU, (1, 3, 1)),
        ("triton", H100, (10, 50, 3)),
        ("python", CPU, (10, 50, 3)),
    ],
)
def test_few_samples_are_taken_of_gpu_languages_on_a_cpu(
    language: str, target: Target, counts: tuple[int, int, int]
) -> None:
    candidate = targeting("cpu", "cuda", language=language)
    workloads = [workload("increment", 8).workload]

    (job,) = jobs_for(INCREMENT, candidate, workloads, BenchmarkConfig(), target)

    settings = job.config
    assert (settings.warmup_runs, settings.iterations, settings.num_trials) == counts


def test_fewer_samples_than_few_stay_as_asked_for() -> None:
    candidate = targeting("cpu", language="triton")
    config = BenchmarkConfig(warmup_runs=0, iterations=2)

    (job,) = jobs_for(INCREMENT, candidate, [workload("increment", 8).workload], config, CPU)

    assert (job.config.warmup_runs, job.config.iterations) == (0, 2)


def test_one_process_serves_all_workloads_of_a_solution(store: TraceSet) -> None:
    batches = plan(store, BenchmarkConfig(), CPU).batches

    assert [[job.solution.name for job in batch] for batch in batches] == [
        ["add_one_fast"] * 2,
        ["add_one_slow"] * 2,
        ["gemm_n128_fast"] * 2,
        ["gemm_n128_slow"] * 2,
    ]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(definitions=("gemm_n128",)), ["gemm_n128_fast", "gemm_n128_slow"]),
        (Selection(definitions=("gemm*", "add_one")), None),
        (Selection(solutions=("*_fast",)), ["add_one_fast", "gemm_n128_fast"]),
        (Selection(op_types=("gemm",)), ["gemm_n128_fast", "gemm_n128_slow"]),
        (Selection(authors=("bo?",)), ["add_one_slow", "gemm_n128_slow"]),
        (Selection(op_types=("gemm",), authors=("ann",)), ["gemm_n128_fast"]),
        (Selection(definitions=("[ag]*",), solutions=("add_one_[fs]*",)), ["add_one_fast", "add_one_slow"]),
        (Selection(), None),
    ],
)  # fmt: skip
def test_names_and_globs_select(
    store: TraceSet, selection: Selection, expected: list[str] | None
) -> None:
    everything = ["add_one_fast", "add_one_slow", "gemm_n128_fast", "gemm_n128_slow"]

    planned = plan(store, BenchmarkConfig(), CPU, selection=selection)

    assert solutions_of(planned) == (expected or everything)


def test_workloads_are_selected_by_uuid(store: TraceSet) -> None:
    selection = Selection(workloads=("gemm_n128-8", "add*-16"))

    planned = plan(store, BenchmarkConfig(), CPU, selection=selection)

    assert jobs_of(planned) == [
        ("add_one_fast", 16),
        ("add_one_slow", 16),
        ("gemm_n128_fast", 8),
        ("gemm_n128_slow", 8),
    ]


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("definitions", "gemm_n128", ["gemm_n128_fast", "gemm_n128_slow"]),
        ("solutions", "add_one_slow", ["add_one_slow"]),
        ("op_types", "gemm", ["gemm_n128_fast", "gemm_n128_slow"]),
        ("authors", "ann", ["add_one_fast", "gemm_n128_fast"]),
        ("workloads", "gemm_n128-8", ["gemm_n128_fast", "gemm_n128_slow"]),
    ],
)
def test_a_configuration_selects_like_the_command_line(
    store: TraceSet, setting: str, value: str, expected: list[str]
) -> None:
    config = BenchmarkConfig(**{setting: [value]})

    assert solutions_of(plan(store, config, CPU)) == expected


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (Selection(definitions=("gem_n128",)), "no definition named 'gem_n128'; did you mean 'gemm_n128'?"),
        (Selection(solutions=("add_one_fats",)), "no solution named 'add_one_fats'; did you mean 'add_one_fast'?"),
        (Selection(op_types=("gem",)), "no op type named 'gem'; did you mean 'gemm'?"),
        (Selection(authors=("anne",)), "no author named 'anne'; did you mean 'ann'?"),
        (Selection(workloads=("gemm_n128-9",)), "no workload named 'gemm_n128-9'; did you mean 'gemm_n128-8'?"),
        (Selection(definitions=("zzzzzz",)), "no definition named 'zzzzzz'"),
    ],
)  # fmt: skip
def test_an_unknown_name_suggests_the_nearest(
    store: TraceSet, selection: Selection, words: str
) -> None:
    with pytest.raises(UnknownNameError) as caught:
        plan(store, BenchmarkConfig(), CPU, selection=selection)

    assert str(caught.value) == words


def test_a_workload_named_as_tables_show_it_is_answered_with_its_uuid(store: TraceSet) -> None:
    with pytest.raises(UsageError) as caught:
        plan(store, BenchmarkConfig(), CPU, selection=Selection(workloads=("n=8",)))

    assert str(caught.value) == (
        "workloads are named by their uuid: that of 'n=8' is 'add_one-8', 'gemm_n128-8'"
    )


def test_a_glob_that_matches_nothing_is_a_mistake(store: TraceSet) -> None:
    with pytest.raises(UsageError, match=r"no definition matches 'gqa\*'"):
        plan(store, BenchmarkConfig(), CPU, selection=Selection(definitions=("gqa*",)))


def test_a_definition_without_workloads_is_remarked_on(store: TraceSet) -> None:
    store.workloads.pop("gemm_n128")

    planned = plan(store, BenchmarkConfig(), CPU)

    assert planned.warnings == ("gemm_n128 has solutions but no workloads",)


@pytest.mark.parametrize(
    ("candidate", "target", "words"),
    [
        (targeting("cuda"), CPU, "built for cuda; the device is cpu"),
        (targeting("CUDA"), CPU, "built for cuda; the device is cpu"),
        (targeting("cpu"), H100, "built for cpu; the device is cuda"),
        (targeting("cuda", language="tilelang"), CPU, "built for cuda; the device is cpu"),
    ],
)  # fmt: skip
def test_what_this_kind_of_device_cannot_run_is_skipped(
    candidate: Solution, target: Target, words: str
) -> None:
    assert skip_reason(candidate, target, is_strict=False) == words


@pytest.mark.parametrize(
    ("candidate", "target"),
    [
        (targeting("cpu"), CPU),
        (targeting("cuda"), H100),
        (targeting("cpu", "cuda"), CPU),
        (targeting("cpu", "cuda"), H100),
        (targeting("NVIDIA_H100"), H100),
        (targeting("nvidia-h100"), H100),
        (targeting("H100", language="cuda"), H100),
    ],
)
def test_what_names_this_device_runs_even_under_strict_hardware(
    candidate: Solution, target: Target
) -> None:
    assert skip_reason(candidate, target, is_strict=True) is None


@pytest.mark.parametrize("target", [CPU, H100])
def test_another_cards_name_skips_only_under_strict_hardware(target: Target) -> None:
    candidate = targeting("NVIDIA_B200")

    assert skip_reason(candidate, target, is_strict=False) is None
    assert skip_reason(candidate, target, is_strict=True) == (
        f"targets NVIDIA_B200; this is {target.hardware}"
    )


def one(candidate: Solution) -> TraceSet:
    return TraceSet(
        definitions={"increment": INCREMENT},
        solutions={"increment": [candidate]},
        workloads={"increment": [workload("increment", 8), workload("increment", 16)]},
    )


@pytest.mark.parametrize("hardware", [("cuda",), ("NVIDIA_H100",), ("cpu", "cuda")])
@pytest.mark.parametrize("language", ["triton", "cuda"])
def test_what_can_be_interpreted_or_compiled_without_a_gpu_is_no_reason_to_skip(
    language: str, hardware: tuple[str, ...]
) -> None:
    candidate = targeting(*hardware, language=language)

    assert skip_reason(candidate, CPU, is_strict=False) is None


def test_cpp_with_cuda_among_its_sources_is_compiled_without_a_gpu() -> None:
    candidate = targeting("cuda", language="cpp")
    kernel = SourceFile(path="kernel.cu", content="")
    mixed = candidate.model_copy(update={"sources": [*candidate.sources, kernel]})

    assert skip_reason(candidate, CPU, is_strict=False) == "built for cuda; the device is cpu"
    assert skip_reason(mixed, CPU, is_strict=False) is None


def test_only_what_stands_in_for_a_gpu_is_marked() -> None:
    marked = {
        (language, kind)
        for language in SupportedLanguages
        for kind in ("cpu", "cuda")
        if is_stand_in(targeting("cuda", language=language), kind)
    }

    assert marked == {("triton", "cpu"), ("tilelang", "cpu")}


def test_another_cards_name_warns_once_and_runs() -> None:
    planned = plan(one(targeting("NVIDIA_B200")), BenchmarkConfig(), H100)

    assert len(planned.jobs) == 2
    assert planned.warnings == ("candidate targets NVIDIA_B200; it runs on NVIDIA H100 80GB HBM3",)


def test_skipped_jobs_carry_their_reason() -> None:
    planned = plan(one(targeting("cuda")), BenchmarkConfig(), CPU)

    assert planned.jobs == ()
    assert [(job.workload.axes["n"], reason) for job, reason in planned.skipped] == [
        (8, "built for cuda; the device is cpu"),
        (16, "built for cuda; the device is cpu"),
    ]


def recorded(store: TraceSet, outcome: Outcome, config: BenchmarkConfig | None = None) -> TraceSet:
    """A store in which the first job of a plan has ended like this."""
    first, *_ = plan(store, config or BenchmarkConfig(), CPU).jobs
    trace = record(finished(outcome, first), RUN)
    store.traces.append(trace)
    return store


def test_without_resume_everything_runs_again() -> None:
    store = recorded(one(solution(HONEST)), passed())

    assert len(plan(store, BenchmarkConfig(), CPU).jobs) == 2


def test_resume_leaves_out_what_is_recorded() -> None:
    store = recorded(one(solution(HONEST)), passed())

    planned = plan(store, BenchmarkConfig(), CPU, resume=Resume())

    assert jobs_of(planned) == [("candidate", 16)]
    assert planned.done_count == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"candidate": solution(HONEST + "# faster\n")},
        {"config": BenchmarkConfig(rtol=1e-3)},
        {"target": Target("cpu", "Another CPU", threads=2)},
        {"target": Target("cpu", "Test CPU", threads=4)},
    ],
    ids=["source", "settings", "hardware", "threads"],
)
def test_resume_repeats_what_was_measured_otherwise(changed: dict[str, Any]) -> None:
    (trace,) = recorded(one(solution(HONEST)), passed()).traces["increment"]
    store = one(changed.get("candidate", solution(HONEST)))
    store.traces.append(trace)

    planned = plan(
        store,
        changed.get("config", BenchmarkConfig()),
        changed.get("target", CPU),
        resume=Resume(),
    )

    assert len(planned.jobs) == 2
    assert planned.done_count == 0


@pytest.mark.parametrize(
    "setting",
    [{"seed": 7}, {"timeout_seconds": 5}, {"label": "again"}, {"use_isolated_runner": True}],
    ids=lambda setting: next(iter(setting)),
)
def test_resume_does_not_mind_settings_that_change_no_result(setting: dict[str, Any]) -> None:
    store = recorded(one(solution(HONEST)), passed())

    planned = plan(store, BenchmarkConfig(**setting), CPU, resume=Resume())

    assert planned.done_count == 1


def test_the_same_code_under_another_name_has_results_of_its_own() -> None:
    (trace,) = recorded(one(solution(HONEST)), passed()).traces["increment"]
    store = one(solution(HONEST, name="renamed"))
    store.traces.append(trace)

    assert plan(store, BenchmarkConfig(), CPU, resume=Resume()).done_count == 0


def test_a_trace_without_provenance_does_not_count_as_done() -> None:
    (trace,) = recorded(one(solution(HONEST)), passed()).traces["increment"]
    store = one(solution(HONEST))
    bare = trace.evaluation.model_copy(update={"provenance": None})
    store.traces.append(trace.model_copy(update={"evaluation": bare}))

    assert plan(store, BenchmarkConfig(), CPU, resume=Resume()).done_count == 0


def test_resume_repeats_what_was_judged_by_another_reference() -> None:
    (trace,) = recorded(one(solution(HONEST)), passed()).traces["increment"]
    store = one(solution(HONEST))
    store.traces.append(trace)
    changed = {"reference": INCREMENT.reference + "# another one\n"}
    described = {"description": "the same, in other words"}

    for update, done in ((changed, 0), (described, 1)):
        store.definitions["increment"] = INCREMENT.model_copy(update=update)
        assert plan(store, BenchmarkConfig(), CPU, resume=Resume()).done_count == done


@pytest.mark.parametrize("missing", ["definition_hash", "solution_hash", "config_hash"])
def test_a_trace_that_does_not_say_by_what_it_was_judged_does_not_count_as_done(
    missing: str,
) -> None:
    (trace,) = recorded(one(solution(HONEST)), passed()).traces["increment"]
    store = one(solution(HONEST))
    older = trace.evaluation.provenance.model_copy(update={missing: None})
    evaluation = trace.evaluation.model_copy(update={"provenance": older})
    store.traces.append(trace.model_copy(update={"evaluation": evaluation}))

    assert plan(store, BenchmarkConfig(), CPU, resume=Resume()).done_count == 0


@pytest.mark.parametrize(
    ("update", "done"),
    [
        ({"axes": {"n": 9}}, 0),
        ({"inputs": {"x": {"type": "random", "distribution": {"type": "uniform"}}}}, 0),
        ({"inputs": {"x": {"type": "safetensors", "path": "a", "tensor_key": "x"}}}, 0),
        ({"size_class": "small"}, 1),
        ({"tolerance": {"rtol": 1e-3}}, 0),
    ],
    ids=["axes", "distribution", "source", "class", "tolerance"],
)
def test_resume_repeats_a_workload_that_changed_under_its_uuid(
    update: dict[str, Any], done: int
) -> None:
    store = recorded(one(solution(HONEST)), passed())
    first, *others = store.workloads["increment"]
    changed = Workload.model_validate(first.workload.to_dict() | update)
    store.workloads["increment"] = [first.model_copy(update={"workload": changed}), *others]

    assert plan(store, BenchmarkConfig(), CPU, resume=Resume()).done_count == done


def test_a_failure_counts_as_done_unless_retries_are_asked_for() -> None:
    store = recorded(one(solution(HONEST)), CRASHED)

    kept = plan(store, BenchmarkConfig(), CPU, resume=Resume())
    retried = plan(store, BenchmarkConfig(), CPU, resume=Resume(retries_failed=True))

    assert (kept.done_count, kept.failed_count) == (1, 1)
    assert (retried.done_count, retried.failed_count) == (0, 0)


def test_a_job_that_passed_is_not_retried_for_an_older_failure() -> None:
    store = recorded(recorded(one(solution(HONEST)), CRASHED), passed())

    planned = plan(store, BenchmarkConfig(), CPU, resume=Resume(retries_failed=True))

    assert planned.done_count == 1


def test_a_job_that_failed_last_is_retried_although_it_had_passed() -> None:
    store = recorded(recorded(one(solution(HONEST)), passed()), CRASHED)

    planned = plan(store, BenchmarkConfig(), CPU, resume=Resume(retries_failed=True))

    assert (planned.done_count, len(planned.jobs)) == (0, 2)


@pytest.mark.parametrize(
    ("outcomes", "failed"), [([CRASHED, passed()], 0), ([passed(), CRASHED], 1)]
)
def test_a_resumed_job_is_what_its_newest_trace_says(outcomes: list[Any], failed: int) -> None:
    store = one(solution(HONEST))
    for outcome in outcomes:
        store = recorded(store, outcome)

    planned = plan(store, BenchmarkConfig(), CPU, resume=Resume())

    assert (planned.done_count, planned.failed_count) == (1, failed)


def test_the_newest_trace_is_the_youngest_wherever_it_lies() -> None:
    """Files of several folders, and of a merged one, are read in the order of their names."""
    store = recorded(recorded(one(solution(HONEST)), CRASHED), passed())
    failed, last = store.traces["increment"]
    assert last.evaluation is not None
    long_ago = last.evaluation.model_copy(update={"timestamp": "2001-02-03T04:05:06+00:00"})
    store.traces["increment"] = [failed, last.model_copy(update={"evaluation": long_ago})]

    planned = plan(store, BenchmarkConfig(), CPU, resume=Resume())

    assert (planned.done_count, planned.failed_count) == (1, 1)


def test_jobs_of_a_gpu_and_a_cpu_have_different_config_hashes() -> None:
    store = one(targeting("cpu", "cuda"))
    same_threads = Target("cuda", "NVIDIA L4", threads=CPU.threads)

    on_cpu, *_ = plan(store, BenchmarkConfig(), CPU).jobs
    on_gpu, *_ = plan(store, BenchmarkConfig(), same_threads).jobs

    assert on_cpu.config_hash != on_gpu.config_hash


def test_an_unaudited_run_has_another_config_hash() -> None:
    store = one(solution(HONEST))

    audited, *_ = plan(store, BenchmarkConfig(), CPU).jobs
    unaudited, *_ = plan(store, BenchmarkConfig(audit=False), CPU).jobs

    assert audited.config_hash != unaudited.config_hash


def test_a_job_is_labelled_by_solution_and_size() -> None:
    first, *_ = plan(one(solution(HONEST)), BenchmarkConfig(), CPU).jobs

    assert first.label == "candidate on n=8"


def test_a_solution_of_an_unknown_definition_is_named(store: TraceSet) -> None:
    stray = solution(HONEST).model_copy(update={"name": "stray", "definition": "gem"})
    store.solutions["gem"] = [stray]

    said = plan(store, BenchmarkConfig(), CPU).warnings

    assert any("stray is left out: it solves 'gem', which does not exist" in line for line in said)


def test_each_hardware_gets_every_job_with_its_own_hash_and_resume() -> None:
    store = recorded(one(solution(HONEST)), passed())
    l4 = Target("cuda", "NVIDIA L4", threads=CPU.threads)

    planned = plan_for_all(store, BenchmarkConfig(workload_class="all"), [CPU, l4, CPU, l4])
    left = plan_for_all(store, BenchmarkConfig(), [CPU, l4], resume=Resume())

    assert [job.target for job in planned.jobs] == [CPU, CPU]
    assert {job.target for job, _ in planned.skipped} == {l4}
    assert {reason for _, reason in planned.skipped} == {"built for cpu; the device is cuda"}
    assert len({job.config_hash for job in planned.jobs}) == 1
    assert (left.done_count, left.failed_count) == (1, 0)


def test_a_batch_is_of_one_target() -> None:
    two = [replace(CPU, hardware=name) for name in ("NVIDIA H100", "NVIDIA L4")]

    planned = plan_for_all(one(solution(HONEST)), BenchmarkConfig(), two)

    assert [{job.target for job in batch} for batch in planned.batches] == [{two[0]}, {two[1]}]
    assert len(planned.jobs) == 4


def test_resume_reads_the_workloads_of_recorded_traces_and_parses_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_dataset(tmp_path, solution(HONEST), sizes=(8, 16))
    store = TraceSet.from_path(root)
    for job in plan(store, BenchmarkConfig(), CPU).jobs:
        trace = record(finished(passed(), job), RUN)
        assert trace is not None
        store.append(trace, author="tester")

    def only_workloads(self: rows.Segment, number: int, line: bytes, unknown: Any) -> Trace:
        assert "/traces/" not in self.path
        return parse(self, number, line, unknown)

    parse = rows.Segment.trace
    monkeypatch.setattr(rows.Segment, "trace", only_workloads)
    planned = plan(TraceSet.from_path(root), BenchmarkConfig(), CPU, resume=Resume())

    assert (len(planned.jobs), planned.done_count) == (0, 2)


def test_jobs_that_failed_before_are_counted_over_all_hardware() -> None:
    store = recorded(one(solution(HONEST)), Crashed("it raised"))
    other = replace(CPU, hardware="Another CPU")

    planned = plan_for_all(store, BenchmarkConfig(), [other, CPU], resume=Resume())

    assert (planned.done_count, planned.failed_count) == (1, 1)
    assert planned.failed_before == (solution(HONEST).name,)
