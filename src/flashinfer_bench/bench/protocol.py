"""The messages between parent, fork server, judge and contestants: frozen values with ids.

A *contestant* is a process that runs one callable: a solution under test, or the reference when it is
timed. It learns a signature, input plans, and the seed of a call when that call is prepared; never a
definition, an expected output or a tolerance. Every answer repeats the id of its request.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from flashinfer_bench.bench.choices import CacheChoice, ClockChoice
from flashinfer_bench.bench.confinement import Confinement, Missing
from flashinfer_bench.tensors.ceilings import Ceilings
from flashinfer_bench.tensors.planned import InputPlan, TensorPlan

Role = Literal["judge", "contestant"]
Phase = Literal["prepare", "plan"]
"""What a solution may have run once per trial besides its calls."""

# A contestant sends whole numbers only, each with bounds: what lies outside is `ChannelGarbled`.
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=10**15)]  # eleven days


class Message(msgspec.Struct, frozen=True, tag=True):
    """What travels on a `Channel`."""

    id: Count


# ------------------------------------------------------------------ parent → fork server


class Spawn(Message, frozen=True):
    """Start a worker, shut in before anybody's code is in it.

    Its channel and its log pipe come as descriptors, in this order.
    """

    role: Role
    is_trusted: bool
    confinement: Confinement


class Kill(Message, frozen=True):
    """Kill a worker and everything it left behind."""

    pid: int


# ------------------------------------------------------------------ fork server → parent


class ServerReady(Message, frozen=True):
    """The fork server has imported what workers need."""


class Spawned(Message, frozen=True):
    """The worker runs; `missing` is what was to hold it and is not in force."""

    pid: int
    computing_pid: int = 0
    """The process that computes: another one than `pid`, whose end is reported, in a container."""
    missing: tuple[Missing, ...] = ()


class NotSpawned(Message, frozen=True):
    """The worker ended before it served; its log says why."""

    pid: int


class Exited(Message, frozen=True):
    """A worker ended; `status` is the wait status, `peak_bytes` what it had in memory at most."""

    pid: int
    status: int
    peak_bytes: int = 0


class Killed(Message, frozen=True):
    """The worker is gone, and so are its `leftovers`, processes it had left running."""

    pid: int
    leftovers: int


FromServer = ServerReady | Spawned | NotSpawned | Exited | Killed
ToServer = Spawn | Kill


# ------------------------------------------------------------------ → contestant


class Build(Message, frozen=True):
    """Build a callable from source; nothing has run before this."""

    solution: bytes
    signature: bytes
    device: str
    threads: int
    cache_root: str
    scratch: str
    clock: ClockChoice = "auto"
    cache: CacheChoice = "auto"
    arch: str | None = None
    arguments: tuple[InputPlan, ...] = ()
    """What the callable will be called with, where kernels are compiled without being called."""


class OpenWorkload(Message, frozen=True):
    """Get ready for one workload; the shared output buffer comes as a descriptor, file contents as a second.

    With `has_output_buffers`, output buffers are made and poisoned before each call, whether this contestant
    writes into them or not: preparing must cost all contestants of a job the same.
    """

    inputs: tuple[InputPlan, ...]
    outputs: tuple[TensorPlan, ...]
    slot_count: int
    has_files: bool
    has_output_buffers: bool
    least_outputs: int
    """How many outputs must be returned; the others may be missing, or None."""


class OpenTrial(Message, frozen=True):
    """Draw fresh pools."""

    seed: int


class RunPhase(Message, frozen=True):
    """Run the solution's own `prepare` or `plan` on the pools, and answer when the device is idle."""

    phase: Phase


class OpenBlock(Message, frozen=True):
    """Let go of buffers and freed memory, so that the next calls run on other pages.

    `host_ns`: how long the calls of a sample keep the host, the same for all contestants; their clocks settle
    by it. None leaves them as they are.
    """

    host_ns: float | None = None


class Prepare(Message, frozen=True):
    """Make the inputs of one sample: `count` distinct sets from one seed.

    With `repeat`, a number, all sets are alike, and torch's generators are seeded anew for each number. With a
    `family`, content is unusual: see `tensors.unusual`.
    """

    seed: int
    count: int
    repeat: int | None = None
    family: str | None = None


class Go(Message, frozen=True):
    """Run the prepared calls, timed."""


class Spin(Message, frozen=True):
    """Keep busy for a known time instead of running the prepared calls: what the harness itself costs."""

    duration_ns: int
    on_all_cores: bool


class Inspect(Message, frozen=True):
    """Look closely at the outputs of the sample just committed; it takes long enough to look like hidden work."""


class Keep(Message, frozen=True):
    """The sample just returned will be checked: fingerprint the inputs of this call of it.

    `asks_peak`: say how much memory was in use at most, too; finding that out takes longer than the rest.
    """

    slot: int
    asks_peak: bool = False


# ------------------------------------------------------------------ contestant → judge or parent


class Built(Message, frozen=True):
    """The callable is ready."""


class BuiltElsewhere(Message, frozen=True):
    """The source is said to compile, and the binary to be for another device; `absence` says for which."""

    absence: str


class BuildFailed(Message, frozen=True):
    """The source did not become a callable; `is_toolchain_missing` blames the machine; the parent looks itself."""

    message: str
    log: str
    is_toolchain_missing: bool


class Done(Message, frozen=True):
    """`OpenWorkload`, `OpenTrial`, `RunPhase`, `OpenBlock` or `Prepare` is done."""


class OutputFault(msgspec.Struct, frozen=True):
    """Something about an output that is visible without comparing values."""

    code: Literal["count", "not_a_tensor", "subclass", "shape", "dtype", "device", "overlap"]
    detail: str


class Finished(Message, frozen=True):
    """All is computed, and the clock is still to find out how long it took: only from clocks that tell late."""


class Returned(Message, frozen=True):
    """The calls returned: how long all of them took together. Told at once, before outputs are looked at.

    `host_ns`: how long they kept the host, where that is not what was timed.
    """

    elapsed_ns: Nanoseconds
    count: Count
    host_ns: Nanoseconds | None = None


class Committed(Message, frozen=True):
    """The outputs of the calls that returned can change no more, or are nothing that fits.

    They lie in the shared buffer; from a card they are on their way there until `Glanced`. The id is that of the
    `Go` before. `missing`: which of the outputs that may be missing are, in any call.
    """

    fault: OutputFault | None
    missing: tuple[Count, ...] = ()


class Glanced(Message, frozen=True):
    """Whether a glance says all: outputs are contiguous and lie apart. The id is that of the `Go` before."""

    is_clear: bool


class Inspected(Message, frozen=True):
    """What outputs look like beside their values."""

    fault: OutputFault | None
    shares_buffers: bool
    strided_elements: Count
    """Elements of one call's outputs that are not contiguous."""


class Kept(Message, frozen=True):
    """Fingerprint of the inputs after the call; `tampering` says what the harness found changed in itself."""

    fingerprint: bytes
    peak_memory_bytes: Count
    """By the process's own account: the judge cannot look into it."""
    tampering: str | None = None


class Raised(Message, frozen=True):
    """The callable raised, or the harness could not do what was asked."""

    text: str


FromContestant = (
    Built
    | BuiltElsewhere
    | BuildFailed
    | Done
    | Finished
    | Returned
    | Committed
    | Glanced
    | Inspected
    | Kept
    | Raised
)
ToContestant = (
    Build | OpenWorkload | OpenTrial | RunPhase | OpenBlock | Prepare | Go | Spin | Inspect | Keep
)


# ------------------------------------------------------------------ parent → judge


class Open(Message, frozen=True):
    """What a judge needs before its first job."""

    device: str
    threads: int
    cache_root: str
    clock: ClockChoice = "auto"
    cache: CacheChoice = "auto"


class LearnCeilings(Message, frozen=True):
    """How fast the device can be; what is not known yet is measured now, before a reference is in the process."""

    known: Ceilings | None


class Connect(Message, frozen=True):
    """A contestant's channel, sent as a descriptor; the judge alone talks to it from here on.

    `pid` is its process as the judge sees it, whose processor time it watches.
    """

    contestant: str
    pid: int


class Contestant(msgspec.Struct, frozen=True):
    """One process that takes part in a job; the outputs of all but the reference are judged.

    Where the reference is not to be timed, it takes part as the control of what the others claim.
    """

    name: str
    is_reference: bool
    is_timed: bool = True
    takes_outputs: bool = False
    phases: tuple[Phase, ...] = ()


class Judgement(msgspec.Struct, frozen=True):
    """What the judge is told of a job beside its settings."""

    timeout_seconds: float
    is_audited: bool
    is_cold: bool = False
    is_told_late: bool = False
    prepares_twice: bool = False
    """Have inputs made when the process is at rest, twice, and look at the second time: threads of a kernel have gone
    to sleep by then, and what it left in the caches is gone."""
    disturbed_repeats: int = 0
    calls_per_sample: int | None = None


class RunJob(Message, frozen=True):
    """Judge and time one workload; contestants were connected before.

    `settings` are a `ResolvedEvalConfig` as JSON: how strict and how long. `coin` decides which timed calls are
    checked; no contestant learns it. With `has_files`, contents of files come as a descriptor.
    """

    definition: bytes
    workload: bytes
    has_files: bool
    contestants: tuple[Contestant, ...]
    settings: bytes
    judgement: Judgement
    key: int
    coin: int


class LintTask(Message, frozen=True):
    """Look at a definition and a workload themselves: whether the task is sound, and hard to fake.

    With `has_files`, contents of files come as a descriptor.
    """

    definition: bytes
    workload: bytes
    has_files: bool
    settings: bytes
    key: int


class Disconnect(Message, frozen=True):
    """A contestant is gone; a job that waits for it ends with `Aborted`."""

    contestant: str


class ProcessSeen(Message, frozen=True):
    """The answer to `LookAtProcess`: process ids, or one number of nanoseconds."""

    numbers: tuple[int, ...]


# ------------------------------------------------------------------ judge → parent


class Opened(Message, frozen=True):
    """The judge's device and clock, and what its self-calibration found.

    Contestants open the same clock; what is recorded of it is what the judge says.
    """

    hardware: str
    lock_name: str
    uuid: str
    driver: str | None
    cuda: str | None
    libs: dict[str, str]
    calibration: dict[str, float]
    clock: Annotated[str, msgspec.Meta(min_length=1)]
    clock_version: str
    clock_overhead_ns: float
    latency_kind: Literal["device", "call", "wall"]
    is_cold: bool
    arch: str | None = None
    """Architecture of the GPU, such as `sm_90`."""


class CeilingsLearned(Message, frozen=True):
    """The ceilings, as known or as just measured; None where there was no room to measure."""

    ceilings: Ceilings | None


class LookAtProcess(Message, frozen=True):
    """Ask what /proc tells of a contestant: the judge runs references and may not read there."""

    pid: int
    about: Literal["descendants", "waiting"]


class Note(msgspec.Struct, frozen=True):
    """Something worth knowing, or a broken rule, with what was seen."""

    code: str
    evidence: str


class TrivialAnswer(msgspec.Struct, frozen=True):
    """What the judge says to an answer that takes no work, as one output of a call."""

    output: str
    answer: str
    is_accepted: bool
    matched_ratio: float
    forgiven_share: float
    """Of the elements that differ from the expected ones, the share that the tolerance lets pass."""


class Variation(msgspec.Struct, frozen=True):
    """How much an output differs between two draws of the inputs."""

    output: str
    between: str
    """`calls` of a trial, or `trials`."""
    same_share: float
    """Share of elements that are equal."""
    relative_change: float | None
    """Root mean square of the difference over that of the output; `None` where values are not numbers."""
    is_accepted: bool
    """Whether one passes for the other."""


class TaskLinted(Message, frozen=True):
    """What was seen of a task; `disagreement` and `randomness` say how the reference contradicts itself."""

    illegal: tuple[Note, ...]
    disagreement: str
    randomness: str
    has_same_calls: bool
    """Whether two calls of a trial get the same inputs."""
    answers: tuple[TrivialAnswer, ...] = ()
    variations: tuple[Variation, ...] = ()


class Errors(msgspec.Struct, frozen=True):
    """Largest differences over all elements, outputs and trials; the share that matched; precision."""

    max_absolute: float
    max_relative: float
    matched_ratio: float
    precision: dict[str, float] | None = None
    extra: dict[str, Any] = {}
    """More for `correctness.extra`: figures of special judges, what unusual draws did."""


class Samples(msgspec.Struct, frozen=True):
    """Per-call times of one contestant in nanoseconds, block by block."""

    contestant: str
    is_reference: bool
    blocks_ns: tuple[tuple[float, ...], ...]
    calls_per_sample: int
    host_ns: float | None = None
    """How long a call keeps the host, where that is not what was timed."""


class Light(msgspec.Struct, frozen=True):
    """What a call has to do, what the device can do at most, and the share of that a solution reached."""

    bytes_moved: float
    flops: float | None
    sol_fraction: float | None
    ceilings: dict[str, float]


class Seen(msgspec.Struct, frozen=True):
    """What the machine was like: blocks that did not count, ranges of gauges, what disturbed blocks that do."""

    blocks_discarded: int = 0
    gauges: dict[str, tuple[float, float]] = {}
    disturbed: dict[str, int] = {}


class JobPassed(Message, frozen=True):
    """Right, and timed; `rival_errors` are those of a second solution in the same job."""

    errors: Errors
    samples: tuple[Samples, ...]
    notes: tuple[Note, ...]
    bytes_moved: int
    peak_memory_bytes: int
    prepare_ms: float | None = None
    plan_ms: float | None = None
    rival_errors: Errors | None = None
    light: Light | None = None
    unaccounted_ns: float | None = None
    """Work per call that could lie beside the claim unseen, with 95%; None where it cannot be told."""
    seen: Seen = Seen()
    task_notes: tuple[Note, ...] = ()
    """How the task itself is weak: not the solution's fault."""
    stopping_rule: Annotated[str, msgspec.Meta(min_length=1)] = "a fixed number of samples"
    stopped_by: Literal["iterations", "interval", "time_budget", "most_blocks"] = "iterations"


class JobWrong(Message, frozen=True):
    """Values differ, or the contract was broken."""

    errors: Errors
    explanation: str
    violations: tuple[Note, ...]
    notes: tuple[Note, ...]
    contestant: str = ""


class JobSuspect(Message, frozen=True):
    """Right, but its claims do not fit what was seen from outside: to be played again before anyone is blamed."""

    errors: Errors
    violations: tuple[Note, ...]
    notes: tuple[Note, ...]
    contestant: str


class JobMisshapen(Message, frozen=True):
    """An output has another shape or dtype."""

    kind: Literal["shape", "dtype"]
    explanation: str
    contestant: str = ""


class JobRaised(Message, frozen=True):
    """The solution raised, or gave back something that is no output."""

    explanation: str
    contestant: str = ""


class JobTimedOut(Message, frozen=True):
    """The solution took longer than its deadline."""

    explanation: str
    contestant: str = ""


class JobAborted(Message, frozen=True):
    """The contestant's channel broke or closed; the parent knows more."""

    contestant: str
    explanation: str


class JobSkipped(Message, frozen=True):
    """This machine cannot run it."""

    reason: str


class ReferenceFailed(Message, frozen=True):
    """The definition or the workload is at fault."""

    explanation: str


class JudgeFailed(Message, frozen=True):
    """A fault of ours."""

    text: str


JobDecided = (
    JobPassed
    | JobWrong
    | JobMisshapen
    | JobRaised
    | JobTimedOut
    | JobAborted
    | JobSkipped
    | ReferenceFailed
    | JudgeFailed
)
JobResult = JobDecided | JobSuspect
LintResult = TaskLinted | JobSkipped | ReferenceFailed | JudgeFailed
FromJudge = Opened | CeilingsLearned | LookAtProcess | JobResult
ToJudge = Open | LearnCeilings | Connect | Disconnect | RunJob | LintTask | ProcessSeen
