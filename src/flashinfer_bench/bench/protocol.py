"""The messages between parent, fork server, judge and candidates: frozen values with ids.

A *candidate* is a process that runs one callable: a solution under test, or the reference when it is
timed. It learns a signature, input plans, and the seed of a call when that call is prepared; never a
definition, an expected output or a tolerance. Every answer repeats the id of its request.

One file of many small types: who may say what to whom is read in one place.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from flashinfer_bench.bench.choices import CacheChoice, ClockChoice
from flashinfer_bench.bench.outcomes import Decision, JobNote
from flashinfer_bench.bench.sandbox.policy import Missing, SandboxPolicy
from flashinfer_bench.compile.instructions import InstructionCounts
from flashinfer_bench.tensors.ceilings import Ceilings
from flashinfer_bench.tensors.planned import InputChange, InputPlan, TensorPlan

Role = Literal["judge", "candidate", "examined"]
Phase = Literal["prepare", "plan"]
"""What a solution may have run once per trial besides its calls."""
About = Literal["children", "waiting"]
"""What the parent can look at for the judge: what a process has started, how long it waited."""

PROFILED_RANGE = "flashinfer_bench_ncu_profile"
"""Name of the range around the profiled call, as profilers show it."""
TORCH_FILE, CUPTI_FILE, CALL_FILE = "torch_trace.json", "activity.json", "call.txt"
"""What tools write into the scratch folder of an examined process."""

# A candidate sends whole numbers only, each with bounds: what lies outside is `ChannelGarbled`.
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=10**15)]  # eleven days


class Message(msgspec.Struct, frozen=True, tag=True):
    """What travels on a `Channel`."""

    id: Count


# ------------------------------------------------------------------ parent → fork server


class Wrapping(msgspec.Struct, frozen=True):
    """A program that starts a worker instead of a fork, such as a profiler; the worker is a fresh interpreter.

    `{scratch}` stands for the worker's temporary folder.
    """

    command: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def placed(self, scratch: str) -> Wrapping:
        """Name the folder."""
        return Wrapping(
            tuple(word.replace("{scratch}", scratch) for word in self.command),
            tuple((name, text.replace("{scratch}", scratch)) for name, text in self.environment),
        )


class Spawn(Message, frozen=True):
    """Start a worker, shut in before anybody's code is in it.

    Its channel and its log pipe come as descriptors, in this order; a first rank's listening socket is a third.
    Of several ranks none is answered before the last one was asked for.
    """

    role: Role
    is_trusted: bool
    policy: SandboxPolicy
    wrapping: Wrapping | None = None
    libraries: tuple[str, ...] = ()
    """Modules that the server imports first, where it has not: this worker and later ones find them there."""


class Kill(Message, frozen=True):
    """Kill a worker and everything it left behind."""

    pid: int


class ShowStack(Message, frozen=True):
    """Have a worker print where its Python code is, into its own log; nothing answers."""

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
ToServer = Spawn | Kill | ShowStack


# ------------------------------------------------------------------ → candidate


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
    only_compiles: bool = False
    """Compile, and load nothing: another process will find the binary. It ends with its answer."""
    rank: int = 0
    ranks: int = 1
    """Of how many ranks it is which: each keeps to cores of its own as far as there are so many."""


class OpenWorkload(Message, frozen=True):
    """Get ready for one workload; the shared output buffer comes as a descriptor, file contents as a second.

    With `has_generated`, what the definition's function made comes as one more.

    With `has_output_buffers`, output buffers are made and poisoned before each call, whether this candidate
    writes into them or not: preparing must cost all participants of a job the same.
    """

    inputs: tuple[InputPlan, ...]
    outputs: tuple[TensorPlan, ...]
    """What calls return or are given to fill, then what they write into their inputs."""
    returned: int
    """How many of the outputs are returned."""
    slot_count: int
    has_files: bool
    has_output_buffers: bool
    least_outputs: int
    """How many outputs must be returned; the others may be missing, or None."""
    has_generated: bool = False
    replays_graphs: bool = False
    """Whether samples are replays of graphs, which `RecordGraphs` asks for."""
    outputs_on_device: bool = False
    """Whether the shared output buffer is memory of the device."""
    has_start_word: bool = False
    """Whether one more descriptor comes, the last: of the word that lets a sample's launched calls begin."""


class OpenTrial(Message, frozen=True):
    """Draw fresh pools."""

    seed: int
    shared_seed: int | None = None
    """What ranks draw replicated inputs by."""


class RunPhase(Message, frozen=True):
    """Run the solution's own `prepare` or `plan` on the pools, and answer when the device is idle."""

    phase: Phase


class OpenBlock(Message, frozen=True):
    """Let go of buffers and freed memory, so that the next calls run on other pages.

    `host_ns`: how long the calls of a sample keep the host, the same for all participants; their clocks settle
    by it. None leaves them as they are.
    """

    host_ns: float | None = None


class UseCache(Message, frozen=True):
    """From now on evict caches before each sample, or do not."""

    is_cold: bool


class RecordGraphs(Message, frozen=True):
    """Record the first `count` calls of samples as graphs, on inputs of this seed, which no sample has.

    Asked for before the seed of the sample that replays them is told.
    """

    seed: int
    count: int


class Prepare(Message, frozen=True):
    """Make the inputs of one sample: `count` distinct sets from one seed.

    With `repeat`, a number, all sets are alike, and torch's generators are seeded anew for each number. With a
    `family`, content is unusual: see `tensors.unusual`. A `change` is made to what was made.
    """

    seed: int
    count: int
    repeat: int | None = None
    family: str | None = None
    change: InputChange | None = None
    shared_seed: int | None = None


class Go(Message, frozen=True):
    """Run the prepared calls, timed. Ranks start together, at `at_ns` of the machine's monotonic clock."""

    at_ns: int | None = None


class Spin(Message, frozen=True):
    """Keep busy for a known time instead of running the prepared calls: what the harness itself costs."""

    duration_ns: int
    on_all_cores: bool
    host_ns: float | None = None
    """What the clock hides of those it is compared with; None where it hides nothing."""


class Repeat(Message, frozen=True):
    """Run the prepared calls again and again for so long, on the same inputs: what energy is counted of."""

    duration_ns: Nanoseconds


class Inspect(Message, frozen=True):
    """Look closely at the outputs of the sample just committed; it takes long enough to look like hidden work."""


class Keep(Message, frozen=True):
    """The sample just returned will be checked: fingerprint the inputs of this call of it.

    `asks_peak`: say how much memory was in use at most, too; finding that out takes longer than the rest.
    """

    slot: int
    asks_peak: bool = False


# ------------------------------------------------------------------ parent → examined process


class Examine(Message, frozen=True):
    """Call what was built on inputs of its own, the last call under a tool; descriptors as of `workload`.

    `by`: `markers` starts and stops what listens from outside; `torch` and `cupti` write a file into the scratch
    folder; `none` just calls, and `exact` does so with outputs that have nothing beside them.
    """

    workload: OpenWorkload
    seed: int
    call_seeds: tuple[int, ...]
    phases: tuple[Phase, ...]
    by: Literal["none", "exact", "markers", "torch", "cupti"]


class TellBuild(Message, frozen=True):
    """Say what compilers said of the build, and what they reserve for each kernel."""

    counts_instructions: bool = False


class BecomeProgram(Message, frozen=True):
    """Write one call down in the scratch folder, and become the program that makes it.

    `{binary}` stands for the compiled library, `{scratch}` for the folder. Nothing answers.
    """

    workload: OpenWorkload
    seed: int
    call_seed: int
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    takes_outputs: bool
    entry: str
    phases: tuple[tuple[Phase, str], ...]
    """Each with the name of its function."""


# ------------------------------------------------------------------ candidate → judge or parent


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
    """`OpenWorkload`, `OpenTrial`, `RunPhase`, `OpenBlock`, `UseCache` or `Prepare` is done."""


class GraphsRecorded(Message, frozen=True):
    """The graphs are there, or `fault` says why a call cannot be recorded."""

    fault: str | None = None


class OutputFault(msgspec.Struct, frozen=True):
    """Something about an output that is visible without comparing values."""

    code: Literal["count", "not_a_tensor", "subclass", "shape", "dtype", "device", "overlap"]
    detail: str


class Finished(Message, frozen=True):
    """All is computed, and the clock is still to find out how long it took: only from clocks that tell late."""


class Returned(Message, frozen=True):
    """The calls returned: how long all of them took together. Told at once, before outputs are looked at.

    `host_ns`: how long they kept the host, where that is not what was timed; without `is_hidden` longer than the device
    was kept busy meanwhile. `launches`: how many pieces of work they gave the device, where the clock counts them.
    """

    elapsed_ns: Nanoseconds
    count: Count
    host_ns: Nanoseconds | None = None
    launches: Count | None = None
    is_hidden: bool = True
    late_ns: Nanoseconds = 0
    """How long after the common start it began."""


class Repeated(Message, frozen=True):
    """How many calls were run in `Repeat`, and how long they took together, until the device was idle."""

    elapsed_ns: Nanoseconds
    count: Count


class Committed(Message, frozen=True):
    """The outputs of the calls that returned can change no more, or are nothing that fits.

    They lie in the shared buffer; from a card they are on their way there until `QuickChecked`. The id is that of the
    `Go` before. `missing`: which of the outputs that may be missing are, in any call.
    """

    fault: OutputFault | None
    missing: tuple[Count, ...] = ()


class QuickChecked(Message, frozen=True):
    """Whether a quick check says all: outputs are contiguous and lie apart. The id is that of the `Go` before."""

    is_clear: bool


class Inspected(Message, frozen=True):
    """What outputs look like beside their values."""

    fault: OutputFault | None
    shares_buffers: bool
    strided_elements: Count
    """Elements of one call's outputs that are not contiguous."""


class Kept(Message, frozen=True):
    """Fingerprint of the inputs after the call; `tampering` says what the harness found changed in itself.

    `overrun` says where the call wrote beside an output's buffer.
    """

    fingerprint: bytes
    peak_memory_bytes: Count
    """By the process's own account: the judge cannot look into it."""
    tampering: str | None = None
    overrun: str | None = None


class Raised(Message, frozen=True):
    """The callable raised, or the harness could not do what was asked."""

    text: str


FromCandidate = (
    Built
    | BuiltElsewhere
    | BuildFailed
    | Done
    | GraphsRecorded
    | Finished
    | Returned
    | Repeated
    | Committed
    | QuickChecked
    | Inspected
    | Kept
    | Raised
)
ToCandidate = (
    Build
    | OpenWorkload
    | OpenTrial
    | RunPhase
    | OpenBlock
    | UseCache
    | RecordGraphs
    | Prepare
    | Go
    | Spin
    | Repeat
    | Inspect
    | Keep
)


# ------------------------------------------------------------------ examined process → parent


class Examined(Message, frozen=True):
    """The calls returned: how long the last one took, under the tool."""

    elapsed_ns: Nanoseconds


class BuildTold(Message, frozen=True):
    """What compilers wrote of what was built, and what `cuobjdump` reads off kernels that were compiled on the way."""

    log: str
    resources: str
    why_no_resources: str = ""
    instructions: dict[str, InstructionCounts] = {}
    """Of each function of the kernels' code, by its name as in the source."""
    why_no_sass: str = ""


FromExamined = Built | BuiltElsewhere | BuildFailed | Raised | Examined | BuildTold
ToExamined = Build | Examine | BecomeProgram | TellBuild


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
    """A candidate's channel, sent as a descriptor; the judge alone talks to it from here on.

    `pid` is its process as the judge sees it, whose processor time it watches.
    """

    participant: str
    pid: int


class ParticipantPlan(msgspec.Struct, frozen=True):
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
    is_hot_too: bool = False
    """Whether as many trials follow in which caches are left alone."""
    is_told_late: bool = False
    prepares_twice: bool = False
    """Have inputs made when the process is at rest, twice, and look at the second time: threads of a kernel have gone
    to sleep by then, and what it left in the caches is gone."""
    disturbed_repeats: int = 0
    calls_per_sample: int | None = None
    best_speedup: float | None = None
    """The best known, where a job that is far behind it may stop."""
    task_notes: tuple[JobNote, ...] | None = None
    """How the task is weak, where that is known."""


class RunJob(Message, frozen=True):
    """Judge and time one workload; participants were connected before.

    `settings` are a `ResolvedEvalConfig` as JSON: how strict and how long. `coin` decides which timed calls are
    checked; no candidate learns it. With `has_files`, contents of files come as a descriptor.
    """

    definition: bytes
    workload: bytes
    has_files: bool
    participants: tuple[ParticipantPlan, ...]
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
    """A candidate is gone; a job that waits for it ends with `Aborted`."""

    participant: str


class ProcessObserved(Message, frozen=True):
    """The answer to `LookAtProcess`: process ids, or nanoseconds as one number. None where nobody knows."""

    numbers: tuple[int, ...]
    used_ns: tuple[int, ...] = ()
    """What all that it ever started has used, at least and at most; empty where the kernel does not count it."""


# ------------------------------------------------------------------ judge → parent


class Opened(Message, frozen=True):
    """The judge's device and clock, and what its self-calibration found.

    Candidates open the same clock; what is recorded of it is what the judge says.
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
    lock_names: dict[str, str] = {}
    """Names of the locks of all GPUs, by device."""
    locked_clock_mhz: float | None = None
    """Where the parent has locked the card's clocks."""
    clock_version_of_ranks: str = ""
    """The version that times several ranks, whose calls nothing holds."""
    rewrites_late: bool = False
    """Whether a part of the inputs of timed calls is written anew once they are launched."""


class CeilingsLearned(Message, frozen=True):
    """The ceilings, as known or as just measured; None where there was no room to measure."""

    ceilings: Ceilings | None


class LookAtProcess(Message, frozen=True):
    """Ask what the kernel tells of a candidate: the judge runs references and may not read there."""

    pid: int
    about: About


class TrialBegins(Message, frozen=True):
    """The checked calls that open a trial were right, and its timed part begins; nothing answers."""

    trial: Count
    trials: Count


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

    illegal: tuple[JobNote, ...]
    disagreement: str
    randomness: str
    has_same_calls: bool
    """Whether two calls of a trial get the same inputs."""
    answers: tuple[TrivialAnswer, ...] = ()
    variations: tuple[Variation, ...] = ()


class JobEnded(Message, frozen=True):
    """What the judge decided; of a task that is looked at only what keeps it from being looked at."""

    outcome: Decision


class JudgeFailed(Message, frozen=True):
    """A fault of ours."""

    text: str


JobAnswer = JobEnded | JudgeFailed
LintAnswer = TaskLinted | JobEnded | JudgeFailed
FromJudge = Opened | CeilingsLearned | LookAtProcess | TrialBegins | JobAnswer
ToJudge = Open | LearnCeilings | Connect | Disconnect | RunJob | LintTask | ProcessObserved
