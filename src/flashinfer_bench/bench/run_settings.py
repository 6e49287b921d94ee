"""The one list of settings: name, type, bounds, default and meaning of each, and what it is a matter of.

Command-line options, the keys of a settings file, its layers, what a job runs with and the hash of that are made
from these classes; `bench/config.py` validates them. Nothing here loads pydantic, so `--help` starts at once.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Ge, Gt, Le, Lt

from flashinfer_bench.bench.choices import (  # noqa: TC001  # read at run time
    CacheChoice,
    ClockChoice,
    LaunchChoice,
)
from flashinfer_bench.compile.architectures import require_arch

if TYPE_CHECKING:
    from collections.abc import Callable

Concern = Literal["judged", "measured", "run", "selected"]
"""Whether a setting says how outputs are judged, how time is taken, how a run goes, or which jobs it has."""
Unit = Literal["", "seconds", "share"]
Hashed = Literal["always", "if_not_default", "elsewhere"]
"""How it enters the hash of a job's settings; `elsewhere`: in other words, or not at all."""

Positive = Annotated[float, Gt(0), Lt(math.inf)]
Ratio = Annotated[float, Gt(0), Le(1)]
Seconds = Annotated[float, Gt(0), Le(1_000_000)]  # what `poll` can wait for, and eleven days
Count = Annotated[int, Gt(0)]
CountOrNone = Annotated[int, Ge(0)]
Names = list[str]
Bound = Ge | Gt | Le | Lt

JUDGE_PARAMETERS = (
    "sampling_validation_trials",
    "sampling_least_draws",
    "sampling_tvd_threshold",
    "sampling_rank_tolerance",
    "sampling_false_alarm_rate",
    "absolute_error_cap",
    "allow_negative_inf",
    "top_k_indices",
    "top_k_values",
    "top_k_scores",
)
"""What our judges read of `extra`; other keys are other people's."""
_ALMOST = 0.8


def _not_misspelt(extra: dict[str, Any]) -> dict[str, Any]:
    for name in set(extra) - set(JUDGE_PARAMETERS):
        near = difflib.get_close_matches(name, JUDGE_PARAMETERS, n=1, cutoff=_ALMOST)
        if near:
            raise ValueError(f"no judge reads {name!r}; did you mean {near[0]!r}?")
    return extra


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """What a setting means, beside its type, bounds and default."""

    concerns: Concern
    help: str
    option: str | None = ""
    """Its command-line option; made of its name where empty, and None where only files and Python have it."""
    also: str = ""
    """A second name of the option."""
    metavar: str | None = None
    default: str = ""
    """What the help shows as default, where the value says too little."""
    unit: Unit = ""
    hashed: Hashed = "if_not_default"
    check: Callable[[Any], Any] | None = None
    """Raises `ValueError` for what type and bounds let pass."""


_judged = partial(SettingInfo, "judged")
_measured = partial(SettingInfo, "measured")
_run = partial(SettingInfo, "run")
_selected = partial(SettingInfo, "selected", metavar="NAME...", default="all")


class LayeredSettings:
    """What may differ by op type, definition and workload."""

    warmup_runs: Annotated[
        CountOrNone, _measured("Untimed calls at the start of each trial.", hashed="always")
    ] = 10
    iterations: Annotated[Count, _measured("Timed samples per trial.", hashed="always")] = 50
    num_trials: Annotated[Count, _measured("Fresh sets of inputs.", hashed="always")] = 3
    until_interval: Annotated[
        Ratio | None,
        _measured(
            "Go on until the speedup's 95% interval is no wider than this, such as 1%.",
            unit="share",
        ),
    ] = None
    time_budget_seconds: Annotated[
        Seconds | None,
        _measured(
            "Stop timing a workload after so long, such as 2s, however many samples there are.",
            option="--time-budget",
            unit="seconds",
        ),
    ] = None
    racing: Annotated[
        bool,
        _measured(
            "Stop timing a workload when the speedup's 95% interval lies below nine tenths of the best on record."
        ),
    ] = False
    rtol: Annotated[
        Positive,
        _judged(
            "Relative tolerance; an element is bad only if it is outside both tolerances.",
            hashed="always",
        ),
    ] = 1e-2
    atol: Annotated[Positive, _judged("Absolute tolerance.", hashed="always")] = 1e-2
    required_matched_ratio: Annotated[
        Ratio | None,
        _judged("Fraction of elements that must match.", default="1", hashed="always"),
    ] = None
    max_error_cap: Annotated[
        Positive | None,
        _judged(
            "A forgiven element may be off by this many times the output's root mean square.",
            option=None,
            hashed="always",
        ),
    ] = 10.0
    max_precision_ratio: Annotated[
        Positive | None,
        _judged(
            "Largest error allowed, in units of the reference's own error against float64.",
            hashed="always",
        ),
    ] = None
    extra: Annotated[
        dict[str, Any],
        _judged("Parameters of special judges.", option=None, hashed="always", check=_not_misspelt),
    ] = {}  # noqa: RUF012  # a field's default; pydantic copies it


class TimingSettings:
    """What all jobs of a run have in common, and a job's settings say too."""

    profile_baseline: Annotated[
        bool,
        _measured(
            "Do not time the reference; there is no speedup then.",
            option="--no-profile-baseline",
            hashed="always",
        ),
    ] = True
    clock: Annotated[
        ClockChoice,
        _measured(
            "events: what a caller on a busy stream pays; cupti: kernel activity, needs cupti-python; wall: "
            "what a caller waits.",
            default="events on cuda, wall on cpu",
            hashed="elsewhere",
        ),
    ] = "auto"
    cache: Annotated[
        CacheChoice,
        _measured(
            "cold: evict the last-level cache before each sample; hot: do not; both: once each, in one trace.",
            default="cold on cuda, hot on cpu",
            hashed="elsewhere",
        ),
    ] = "auto"
    launch: Annotated[
        LaunchChoice,
        _measured(
            "stream: each call is launched by its own code; graph: it is recorded as a CUDA graph once, and replayed."
        ),
    ] = "stream"
    lock_clocks: Annotated[
        bool,
        _measured(
            "Lock the GPU's clocks at their base frequency while the run lasts; needs root, or CAP_SYS_ADMIN."
        ),
    ] = False
    energy: Annotated[
        bool,
        _measured("Measure the energy of a call too, which takes 3 s more a workload."),
    ] = False


class JobSettings(TimingSettings, LayeredSettings):
    """What holds for one job."""


class RunSettings(TimingSettings):
    """What holds for a whole run."""

    definitions: Annotated[Names | None, _selected("Definitions to run; names or globs.")] = None
    solutions: Annotated[Names | None, _selected("Solutions to run; names or globs.")] = None
    op_types: Annotated[Names | None, _selected("Op types to run; names or globs.")] = None
    authors: Annotated[Names | None, _selected("Authors whose solutions run; names or globs.")] = (
        None
    )
    workloads: Annotated[Names | None, _selected("Workloads to run, by uuid; names or globs.")] = (
        None
    )
    workload_class: Annotated[
        Literal["small", "full", "all"] | None,
        SettingInfo(
            "selected",
            "Workloads to run by size: small ones for a CPU, full ones as a serving GPU sees them; those "
            "without a class always run.",
            default="small on cpu, full on cuda, all with --workloads",
        ),
    ] = None
    arch: Annotated[
        str | None,
        _run(
            "GPU architecture to compile CUDA and Triton for, such as sm_90; what is not for this "
            "device is only compiled.",
            metavar="SM",
            default="the device's own; sm_90 without a GPU",
            check=require_arch,
        ),
    ] = None
    timeout_seconds: Annotated[
        Seconds,
        _run("How long a solution may take for one workload.", option="--timeout", unit="seconds"),
    ] = 300
    build_timeout_seconds: Annotated[
        Seconds,
        _run("How long a build may take.", option="--build-timeout", unit="seconds"),
    ] = 300
    threads: Annotated[
        Count | None,
        _run("CPU threads of solution and reference alike.", default="physical cores"),
    ] = None
    seed: Annotated[
        Annotated[int, Ge(0), Lt(2**64)] | None,
        _run("Seed for the inputs; set it to repeat a run.", default="secret"),
    ] = None
    use_isolated_runner: Annotated[
        bool,
        _run(
            "A fresh process for every job instead of one per solution.",
            option="--isolated",
            also="--use-isolated-runner",
        ),
    ] = False
    sandbox: Annotated[
        Literal["process", "container", "required", "off"],
        _run(
            "How solutions are sandboxed (docs/sandbox.md). `required`: `process`, or do not run."
        ),
    ] = "process"
    unseen: Annotated[
        CountOrNone,
        _judged(
            "Sizes that no workload of the run has, on which a solution that passed is tried too; one that is wrong or "
            "slow there is marked `specialised`.",
            metavar="N",
        ),
    ] = 0
    audit: Annotated[
        bool,
        _judged(
            "Turn off the checks of timed calls and of reported times.",
            option="--no-audit",
        ),
    ] = True
    strict: Annotated[bool, _judged("Turn notes into failures.")] = False
    strict_hardware: Annotated[
        bool, SettingInfo("selected", "Skip solutions whose target hardware names another card.")
    ] = False
    disturbed_repeats: Annotated[
        CountOrNone,
        _measured(
            "Blocks of a job that are timed again because the machine was disturbed, at most.",
            option=None,
        ),
    ] = 3
    label: Annotated[
        str | None, _run("A name for this run, kept in its traces.", metavar="TEXT")
    ] = None
    sampling_validation_trials: Annotated[
        Count | None, _judged("Deprecated: use `extra` of the sampling op type.", option=None)
    ] = None
    sampling_tvd_threshold: Annotated[
        Annotated[float, Ge(0), Le(1)] | None,
        _judged("Deprecated: use `extra` of the sampling op type.", option=None),
    ] = None
    log_dir: Annotated[
        str | None, _run("Deprecated and ignored: logs are part of the traces.", option=None)
    ] = None


@dataclass(frozen=True, slots=True)
class KnownSetting:
    """A setting of the list, taken apart."""

    name: str
    annotation: Any
    """Its type as it is written, bounds included."""
    plain_type: Any
    """`int`, `float`, `bool`, `str`, `list[str]`, `dict[str, Any]` or a `Literal`."""
    bounds: tuple[Bound, ...]
    may_be_none: bool
    default: Any
    setting: SettingInfo

    @property
    def option(self) -> str | None:
        """Its option on the command line."""
        made = f"--{self.name.replace('_', '-')}"
        return None if self.setting.option is None else self.setting.option or made

    @property
    def default_text(self) -> str:
        """The default as help shows it; empty where there is nothing to show."""
        if self.setting.default or self.default is None or isinstance(self.default, bool):
            return self.setting.default
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)


@cache
def settings_of(owner: type) -> dict[str, KnownSetting]:
    """List the settings of a class by name, in order."""
    hints = get_type_hints(owner, include_extras=True)
    return {name: _known(name, hint, getattr(owner, name)) for name, hint in hints.items()}


@cache
def known_settings() -> dict[str, KnownSetting]:
    """List all settings by name."""
    return settings_of(LayeredSettings) | settings_of(RunSettings)


def _known(name: str, annotation: Any, default: Any) -> KnownSetting:
    plain_type, metadata, may_be_none = _taken_apart(annotation)
    (setting,) = (each for each in metadata if isinstance(each, SettingInfo))
    bounds = tuple(each for each in metadata if isinstance(each, Bound))
    return KnownSetting(name, annotation, plain_type, bounds, may_be_none, default, setting)


def _taken_apart(annotation: Any) -> tuple[Any, tuple[Any, ...], bool]:
    """Give the type below `Annotated` and `| None`, what was annotated, and whether None may stand there."""
    if get_origin(annotation) is Annotated:
        inner, *own = get_args(annotation)
        plain, below, may_be_none = _taken_apart(inner)
        return plain, (*below, *own), may_be_none
    if get_origin(annotation) in {Union, UnionType}:
        (inner,) = (each for each in get_args(annotation) if each is not NoneType)
        plain, below, _ = _taken_apart(inner)
        return plain, below, True
    return annotation, (), False
