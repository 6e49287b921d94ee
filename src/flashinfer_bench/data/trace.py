"""One line of the record: a solution, a workload, and how it went."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, StrictBool
from pydantic_core import CoreSchema, core_schema

from flashinfer_bench.data.entity import (
    Entity,
    NonEmptyStr,
    NonNegativeInt,
    is_empty,
    is_none,
)
from flashinfer_bench.data.workload import Workload


def _not_negative(value: float) -> float:
    if value < 0:
        raise ValueError("must not be negative")
    return value


NonNegativeFloat = Annotated[float, Field(ge=0)]
ErrorMaximum = Annotated[float, AfterValidator(_not_negative)]  # NaN passes, unlike with `ge=0`
Interval = tuple[float, float]


class EvaluationStatus(enum.StrEnum):
    """How a job ended."""

    PASSED = "PASSED"
    INCORRECT_SHAPE = "INCORRECT_SHAPE"
    INCORRECT_NUMERICAL = "INCORRECT_NUMERICAL"
    INCORRECT_DTYPE = "INCORRECT_DTYPE"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    COMPILE_ERROR = "COMPILE_ERROR"
    TIMEOUT = "TIMEOUT"


_WITH_CORRECTNESS = frozenset({EvaluationStatus.PASSED, EvaluationStatus.INCORRECT_NUMERICAL})


class DeviceInfo(Entity):
    """The very device something ran on."""

    uuid: NonEmptyStr
    """Identity of the card, or of the machine for a CPU."""
    name: NonEmptyStr
    """Name the vendor gives it."""
    driver: str | None = Field(None, exclude_if=is_none)
    """Driver version."""
    cuda: str | None = Field(None, exclude_if=is_none)
    """CUDA version the driver supports."""


class Environment(Entity):
    """Where something ran."""

    hardware: NonEmptyStr
    """Device name by which reports group."""
    libs: dict[str, str] = Field(default_factory=dict)
    """Versions of the libraries involved."""
    device: DeviceInfo | None = Field(None, exclude_if=is_none)
    """The very device."""
    threads: int | None = Field(None, exclude_if=is_none)
    """CPU threads both sides were given."""
    calibration: dict[str, float] | None = Field(None, exclude_if=is_none)
    """What the clock said about calls of known length when the run began."""
    locked_clock_mhz: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Clock at which the card was locked; absent where it chose its own."""


class Correctness(Entity):
    """How far outputs were from the reference's, over all elements, outputs and trials."""

    max_relative_error: ErrorMaximum = 0.0
    """Largest relative error; may be `NaN` or `Infinity`."""
    max_absolute_error: ErrorMaximum = 0.0
    """Largest absolute error; may be `NaN` or `Infinity`."""
    extra: dict[str, Any] | None = None
    """What a judge adds, such as `violations` and `precision`."""
    bitwise_repeatable: bool | None = Field(None, exclude_if=is_none)
    """Whether two calls on the same inputs gave the same bits; no failure where they did not."""


class ClockInfo(Entity):
    """How samples were taken."""

    name: NonEmptyStr
    """Which clock."""
    version: str
    """Version of the clock's library."""
    overhead_ns: NonNegativeFloat
    """Measured time of an empty call."""
    calls_per_sample: NonNegativeInt
    """Calls of the solution in one sample."""
    reference_calls_per_sample: NonNegativeInt | None = Field(None, exclude_if=is_none)
    """Calls of the reference in one sample."""


class HotTiming(Entity):
    """The same job on hot caches, where cold ones were timed first: fields as in `Performance`."""

    latency_ms: NonNegativeFloat
    """Median time of one call of the solution."""
    latency_interval_ms: Interval | None = Field(None, exclude_if=is_none)
    """95% interval of the solution's median."""
    reference_latency_ms: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Median time of one call of the reference."""
    reference_interval_ms: Interval | None = Field(None, exclude_if=is_none)
    """95% interval of the reference's median."""
    speedup_factor: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """How many times faster the solution is than the reference."""
    speedup_interval: Interval | None = Field(None, exclude_if=is_none)
    """95% interval of the speedup, over block ratios."""
    sample_count: NonNegativeInt
    """Samples taken of the solution."""
    block_count: NonNegativeInt
    """Alternating blocks kept."""
    calls_per_sample: NonNegativeInt
    """Calls in one sample."""


class EnergyInfo(Entity):
    """Energy of one call among others back to back, on the inputs of a few calls; or why it is not known."""

    missing: str | None = Field(None, exclude_if=is_none)
    """Why it could not be measured; then there is nothing else."""
    source: Literal["nvml", "rapl"] | None = Field(None, exclude_if=is_none)
    """The counter: a whole card's, or all packages of the processors."""
    call_mj: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Millijoules of one call: mean power times `call_ms`."""
    call_interval_mj: Interval | None = Field(None, exclude_if=is_none)
    """95% interval of it, over ten stretches of the readings."""
    power_w: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Mean power, the idle device's share included."""
    call_ms: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Time of one call back to back with others, by the solution's own process."""
    seconds: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """How long the counter was read for."""


class StoppingInfo(Entity):
    """When enough had been measured."""

    rule: NonEmptyStr
    """What was asked for."""
    reason: Literal["iterations", "interval", "time_budget", "most_blocks", "behind"]
    """What ended it; `behind`: the solution was far behind the best known one."""


class RanksInfo(Entity):
    """How several ranks ran; their latency is that of the slowest one, from a common start."""

    world_size: Annotated[int, Field(ge=2)]
    """How many ranks there were."""
    backend: Literal["gloo", "nccl"]
    """What connected them."""
    unchecked: list[NonEmptyStr] = Field(default_factory=list, exclude_if=is_empty)
    """What is looked at in a job of one rank, and was not in this one."""


class Performance(Entity):
    """How fast a solution was; absent keys were not measured."""

    latency_ms: NonNegativeFloat = 0.0
    """Median time of one call of the solution."""
    reference_latency_ms: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Median time of one call of the reference."""
    speedup_factor: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """How many times faster the solution is than the reference."""
    latency_interval_ms: Interval | None = Field(None, exclude_if=is_none)
    """95% interval of the solution's median."""
    reference_interval_ms: Interval | None = Field(None, exclude_if=is_none)
    """95% interval of the reference's median."""
    speedup_interval: Interval | None = Field(None, exclude_if=is_none)
    """95% interval of the speedup, over block ratios."""
    quartiles_ms: Interval | None = Field(None, exclude_if=is_none)
    """First and third quartile of the solution's samples."""
    sample_count: NonNegativeInt | None = Field(None, exclude_if=is_none)
    """Samples taken of the solution."""
    noise: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Relative spread of the solution's samples."""
    clock: ClockInfo | None = Field(None, exclude_if=is_none)
    """How samples were taken."""
    latency_kind: Literal["device", "call", "wall"] | None = Field(None, exclude_if=is_none)
    """Kernel activity, what a caller on a busy stream pays, or wall time."""
    is_cold: bool | None = Field(None, exclude_if=is_none)
    """Whether caches were evicted between samples."""
    block_count: NonNegativeInt | None = Field(None, exclude_if=is_none)
    """Alternating blocks kept."""
    stopping: StoppingInfo | None = Field(None, exclude_if=is_none)
    """When enough had been measured, and why."""
    interval_scope: Literal["one_process"] | None = Field(None, exclude_if=is_none)
    """What the intervals know: noise within these processes, not what differs from one process to the next."""
    blocks_discarded: NonNegativeInt | None = Field(None, exclude_if=is_none)
    """Blocks repeated because the machine was disturbed: throttled, or busy with something else."""
    blocks_begun_again: NonNegativeInt | None = Field(None, exclude_if=is_none)
    """Blocks forgotten because their samples had too few calls: these were far quicker than in warm-up."""
    blocks_disturbed: dict[str, NonNegativeInt] | None = Field(None, exclude_if=is_none)
    """Blocks that count though the machine was disturbed, by what disturbed it."""
    conditions: dict[str, Interval] | None = Field(None, exclude_if=is_none)
    """Lowest and highest reading around the blocks: `sm_clock_mhz`, `temperature_c`, `power_w`, `load_average`."""
    peak_memory_bytes: NonNegativeInt | None = Field(None, exclude_if=is_none)
    """Most memory the solution held, as its own process reports it; bounded by what the device has."""
    build_ms: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Time until the solution could be called, as the parent saw it; short where an earlier build was kept."""
    bytes_moved: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Bytes one call moves at least."""
    flops: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Operations one call needs."""
    sol_fraction: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Share of the device's speed of light: the time it needs for bytes or flops at least, over the time taken."""
    ceilings: dict[str, NonNegativeFloat] | None = Field(None, exclude_if=is_none)
    """What the device was measured to do, in units of 1e9 a second."""
    host_overhead_ms: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Time a call keeps the host until its work is launched; absent where that is what `latency_ms` is."""
    launch: Literal["graph"] | None = Field(None, exclude_if=is_none)
    """`graph` where each call was a replay of a CUDA graph; absent where its own code launched it."""
    launches_per_call: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Kernels, copies and fills that a call gave the device, as CUPTI recorded them; absent with other clocks."""
    hot: HotTiming | None = Field(None, exclude_if=is_none)
    """The same on hot caches, where both were asked for; the other times are those on cold ones."""
    energy: EnergyInfo | None = Field(None, exclude_if=is_none)
    """Energy of one call, where it was asked for."""
    unaccounted_ms: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Work per call that could lie outside of `latency_ms` without being seen, with 95%."""
    ranks: RanksInfo | None = Field(None, exclude_if=is_none)
    """How several ranks ran, where the definition has a `world_size`."""
    prepare_ms: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Time of `prepare`, once per trial, by the judge's clock."""
    plan_ms: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """Time of `plan`, once per trial, by the judge's clock."""


class Note(Entity):
    """Something honest but worth knowing."""

    code: NonEmptyStr
    """Which kind."""
    evidence: str
    """What was seen."""


class RunInfo(Entity):
    """The run that made a trace."""

    id: NonEmptyStr
    """Identity of the run."""
    label: str | None = Field(None, exclude_if=is_none)
    """Name the user gave it."""
    solution_commit: str | None = Field(None, exclude_if=is_none)
    """Git commit of the solution's repository."""
    dirty: bool | None = Field(None, exclude_if=is_none)
    """Whether that repository had uncommitted changes."""


class GenerationInfo(Entity):
    """How a program came to a solution."""

    model: NonEmptyStr
    """The language model that wrote it."""
    endpoint: NonEmptyStr
    """Who answered: host and path, without keys and queries."""
    parent: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """`Solution.hash()` of the solution that it was made from."""
    prompt_hash: NonEmptyStr
    """SHA-256 of the messages that were sent."""
    round: int = Field(ge=1)
    """In which round of asking it came."""
    prompt_tokens: NonNegativeInt
    """Tokens sent up to this solution, as the endpoint counted them."""
    completion_tokens: NonNegativeInt
    """Tokens received up to this solution."""
    device_s: NonNegativeFloat
    """Seconds that jobs took up to this solution's acceptance, those of other candidates included."""
    cost_usd: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """What those tokens cost, at the prices that were given; absent where none were."""


class Provenance(Entity):
    """What ties a trace to code, data and settings."""

    trace_id: NonEmptyStr
    """Identity of the trace; raw samples carry it too."""
    solution_hash: NonEmptyStr
    """`Solution.hash()` of what ran."""
    definition_hash: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """`Definition.hash()` of what it was judged by."""
    config_hash: NonEmptyStr
    """Hash of the settings that change results."""
    settings: dict[str, Any] | None = Field(None, exclude_if=is_none)
    """Counts, tolerances and the like that were not the built-in ones, so that the job can be replayed."""
    seed: str = Field(pattern=r"^[0-9a-f]{16}$")
    """Key of the inputs, that of the attempt that counted: 16 hexadecimal digits."""
    seed_given: bool
    """Whether it follows from a seed that the user chose."""
    attempt: int | None = Field(None, ge=1, exclude_if=is_none)
    """Which attempt at the job this is: the first, or a later one, and then the log says why."""
    run: RunInfo
    """The run that made the trace."""
    dataset_revision: str | None = Field(None, exclude_if=is_none)
    """Revision of the dataset."""
    sandbox: NonEmptyStr
    """Isolation level the solution ran under: `partial` where not all of `process` was in force."""
    sandbox_missing: list[str] | None = Field(None, exclude_if=is_none)
    """The measures that were not in force."""
    late_inputs: bool = Field(False, exclude_if=lambda is_so: not is_so)
    """Whether a part of the inputs of timed calls was written anew once they were launched."""
    interpreted: bool = False
    """Whether Triton was interpreted: such times mean nothing."""
    generated: GenerationInfo | None = Field(None, exclude_if=is_none)
    """How a program came to the solution; absent where none says so."""


class UnseenConfiguration(Entity):
    """One configuration that no workload of the run had, and how the solution did on it."""

    workload: Workload
    """Its sizes and inputs; drawn when the run began."""
    verdict: Literal["as_predicted", "wrong", "slow", "not_compared", "not_tried"]
    """`wrong`: it did not pass; `slow`: less than half of the predicted speedup; `not_compared`: it passed, and there
    is no interval to compare; `not_tried`: the reference, or the machine, could not."""
    status: EvaluationStatus | None = Field(None, exclude_if=is_none)
    """How the job ended; absent where it was not tried."""
    evidence: str = Field("", exclude_if=is_empty)
    """What was seen, or why it was not tried."""
    speedup_factor: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """How many times faster the solution is than the reference here."""
    speedup_interval: Interval | None = Field(None, exclude_if=is_none)
    """95% interval of it."""
    predicted_speedup: NonNegativeFloat | None = Field(None, exclude_if=is_none)
    """The lower of the lower ends of the speedups' intervals on the workloads nearest in size."""
    seed: str | None = Field(None, pattern=r"^[0-9a-f]{16}$", exclude_if=is_none)
    """Key of the inputs, as in `provenance`."""


class UnseenInfo(Entity):
    """Configurations that were tried once a solution had passed all its workloads of the run (`--unseen`)."""

    specialised: StrictBool = False
    """Whether it was wrong, or slow, on any of them."""
    configurations: list[UnseenConfiguration] = Field(default_factory=list, exclude_if=is_empty)
    """Each that was drawn."""
    missing: str | None = Field(None, exclude_if=is_none)
    """Why fewer were drawn than asked for."""


_FLAT_PARTS: Mapping[str, tuple[str, ...]] = {
    "environment": ("hardware", "libs", "device", "threads"),
    "correctness": ("max_relative_error", "max_absolute_error", "extra"),
    "performance": ("latency_ms", "reference_latency_ms", "speedup_factor"),
}


def _nest(data: object) -> object:
    """Turn the flat form into the nested one; leave anything else alone."""
    if not isinstance(data, Mapping):
        return data
    nested = dict(data)
    parts = {
        part: {key: nested.pop(key) for key in keys if key in nested}
        for part, keys in _FLAT_PARTS.items()
    }
    if not any(parts.values()):
        return data
    mixed = sorted(part for part in _FLAT_PARTS if nested.get(part) is not None)
    if mixed:
        flat = sorted(key for values in parts.values() for key in values)
        raise ValueError(f"flat keys ({', '.join(flat)}) are mixed with {', '.join(mixed)}")
    return nested | {part: values for part, values in parts.items() if values}


def _with_fitting_parts(evaluation: Evaluation) -> Evaluation:
    status = evaluation.status
    _require_part("correctness", evaluation.correctness, status, status in _WITH_CORRECTNESS)
    _require_part("performance", evaluation.performance, status, status == "PASSED")
    return evaluation


def _require_part(part: str, value: object, status: str, is_required: bool) -> None:
    if is_required and value is None:
        raise ValueError(f"{part} is required with status {status}")
    if not is_required and value is not None:
        raise ValueError(f"{part} must be absent with status {status}")


class Evaluation(Entity):
    """How a job ended.

    People writing by hand may give the flat form (`hardware`, `latency_ms`, `max_relative_error`,
    …) instead of the nested one; it is always written nested.
    """

    status: EvaluationStatus
    """How the job ended."""
    environment: Environment
    """Where it ran."""
    timestamp: NonEmptyStr
    """When it ended, ISO-8601."""
    log: str = ""
    """What the build and the solution printed."""
    correctness: Correctness | None = None
    """Present with `PASSED` and `INCORRECT_NUMERICAL` only."""
    performance: Performance | None = None
    """Present with `PASSED` only."""
    notes: list[Note] = Field(default_factory=list, exclude_if=is_empty)
    """Things honest but worth knowing."""
    task_notes: list[Note] = Field(default_factory=list, exclude_if=is_empty)
    """How the task itself is weak, so that less than the work may pass; not the solution's fault."""
    unseen: UnseenInfo | None = Field(None, exclude_if=is_none)
    """In the last trace of a solution's jobs in a run with `--unseen`: how it did on sizes that it had not seen."""
    provenance: Provenance | None = Field(None, exclude_if=is_none)
    """What ties the trace to code, data and settings."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check parts against the status; from Python, accept the flat form too.

        JSON takes the short way, which knows no flat form; `parsing` falls back to this one.
        """
        schema = handler(source)
        if schema["type"] == "json-or-python":  # ours already, asked for again by `Trace`
            return schema
        nested = core_schema.no_info_after_validator_function(_with_fitting_parts, schema)
        flat = core_schema.no_info_before_validator_function(_nest, nested)
        return core_schema.json_or_python_schema(json_schema=nested, python_schema=flat)


class Trace(Entity):
    """One line of the record; without solution and evaluation it only carries a workload."""

    definition: NonEmptyStr
    """Name of the definition."""
    workload: Workload
    """The workload."""
    solution: NonEmptyStr | None = None
    """Name of the solution that ran."""
    evaluation: Evaluation | None = None
    """How it went."""

    def is_workload_trace(self) -> bool:
        """Tell whether this only carries a workload."""
        return self.solution is None and self.evaluation is None

    def is_successful(self) -> bool:
        """Tell whether a solution ran and passed."""
        return self.evaluation is not None and self.evaluation.status is EvaluationStatus.PASSED
