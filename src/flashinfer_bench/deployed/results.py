"""What a model measured with and without other kernels showed: values without torch."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # documents are read into these classes
from dataclasses import dataclass

from flashinfer_bench.stats.intervals import Interval  # noqa: TC001

MODES = ("eager", "compiled", "graphs", "compiled-graphs")
PHASES = ("prefill", "decode")


@dataclass(frozen=True, slots=True)
class Composition:
    """One run over the reference's tokens."""

    name: str
    """How rows were put into batches, the mode, or `candidate`."""
    error: float
    """Root of the mean squared distance of the logits from those in higher precision, relative to their spread."""
    worst_error: float
    """The same of the worst step."""
    flips: int
    """Steps whose likeliest token is another than the reference's."""
    steps: int


@dataclass(frozen=True, slots=True)
class AgreementLimits:
    """What a candidate may show: the most that the baseline showed, times a margin."""

    error: float
    error_margin: float
    worst_error: float
    worst_margin: float
    flips: int
    baseline_flips: int


@dataclass(frozen=True, slots=True)
class QualityVerdict:
    """Whether the candidate is still the model."""

    is_accepted: bool
    why: str
    candidate: Composition
    limits: AgreementLimits
    baseline: tuple[Composition, ...]


@dataclass(frozen=True, slots=True)
class SolutionUse:
    """What one solution did in one step of a mode."""

    definition: str
    solution: str
    kind: str
    """`kernel`, or `library` for one that only calls libraries."""
    calls_libraries: tuple[str, ...]
    answered: Mapping[str, int]
    """Calls of one step, by phase."""


@dataclass(frozen=True, slots=True)
class PhaseUse:
    """What became of the calls of one step."""

    left: Mapping[str, int]
    """Calls that the model's own code answered, by definition, size and reason."""
    saved_ms: float
    """What the answered calls save by the traces' medians: the prediction."""
    device_kernels: tuple[str, ...] = ()
    """Kernels that ran on the device in the candidate's step and not in the baseline's."""


@dataclass(frozen=True, slots=True)
class ModeUse:
    """Proof of use in one mode."""

    solutions: tuple[SolutionUse, ...]
    phases: Mapping[str, PhaseUse]
    left_compiled: tuple[str, ...]
    """Calls that keep their original in compiled code."""
    unused: tuple[str, ...]
    """Chosen candidates that answered nothing, each with why: an error."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A median over rounds with its 95% interval; with fewer than six rounds there is none."""

    value: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """One phase in one mode."""

    phase: str
    old_step_ms: Figure
    """Prefill: time to first token. Decode: time per token."""
    new_step_ms: Figure
    old_tokens_per_s: Figure
    new_tokens_per_s: Figure
    ratio: float | None
    """Old time over new time."""
    interval: Interval | None
    verdict: str
    predicted: float | None
    """The same by the kernels' traces alone: step over step less what the answered calls save."""


@dataclass(frozen=True, slots=True)
class ModeResult:
    """One mode: measured, or why not."""

    mode: str
    status: str
    """`passed`; `failed`: the candidate failed, was refused or answered nothing; `skipped`: not to be had here."""
    why: str
    phases: tuple[PhaseResult, ...] = ()
    old_memory_mib: Figure | None = None
    new_memory_mib: Figure | None = None
    quality: QualityVerdict | None = None
    use: ModeUse | None = None
    graph_breaks: int | None = None
    recompiles: int | None = None
    """Graphs the compiler made after the warm-up."""


@dataclass(frozen=True, slots=True)
class ModelReport:
    """A model with a dataset's solutions against the model without."""

    model: str
    family: str
    hardware: str
    device: str
    dtype: str
    rows: int
    prompt: int
    steps: int
    threads: int | None
    clock: str
    rounds: int
    blocks: int
    threshold: float
    baseline: str
    """`the model's own code`, or a dataset."""
    candidate: str
    """The dataset."""
    solutions: tuple[str, ...]
    """Those chosen by name; empty: all winners."""
    shares: Mapping[str, float]
    """Of the device's time, by phase, as declared."""
    modes: tuple[ModeResult, ...]
