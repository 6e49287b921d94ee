"""Rounds of a model against itself with other kernels: fresh processes each, both timed in turns."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from flashinfer_bench.deployed.processes import SideFailedError, SideProcess
from flashinfer_bench.deployed.results import (
    PHASES,
    Figure,
    ModeResult,
    ModeUse,
    PhaseResult,
    QualityVerdict,
)
from flashinfer_bench.stats.blocks import block_ratios
from flashinfer_bench.stats.intervals import median_interval
from flashinfer_bench.stats.verdicts import ratio_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NS_PER_MS = 1e6
_NO_GRAPHS = "CUDA graphs need a CUDA device; this is {}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuestion:
    """What is measured, and how."""

    path: str
    device: str
    dtype: str
    rows: int
    prompt: int
    steps: int
    seed: int
    threads: int | None
    clock: str
    candidate: str
    baseline: str | None
    """A dataset whose solutions the baseline has; none: the model's own code."""
    solutions: tuple[str, ...]
    modes: tuple[str, ...]
    rounds: int
    blocks: int
    sample_ms: float
    threshold: float
    timeout_s: float
    checks: bool = True

    def task(self, *, is_new: bool) -> dict[str, Any]:
        """Give what a process is told."""
        return self._told() | {
            "dataset": self.candidate if is_new else self.baseline,
            "solutions": self.solutions if is_new else (),
        }

    def task_of_check(self) -> dict[str, Any]:
        """The same of the process that checks: it begins with the model's own code."""
        return self._told() | {"dataset": None, "solutions": self.solutions}

    def _told(self) -> dict[str, Any]:
        names = ("path", "device", "dtype", "rows", "prompt", "steps", "seed", "threads", "clock")
        return {name: getattr(self, name) for name in (*names, "candidate")}


@dataclass(slots=True)
class _PhaseSamples:
    """Of one phase in one mode: nanoseconds of a step, by round and block."""

    old: list[list[float]] = field(default_factory=list)
    new: list[list[float]] = field(default_factory=list)


class _EndedError(Exception):
    """A mode is out, with its status and why."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


@dataclass(slots=True)
class _Played:
    """One mode's rounds."""

    samples: dict[str, _PhaseSamples] = field(default_factory=lambda: defaultdict(_PhaseSamples))
    memory_mib: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    use: ModeUse | None = None
    breaks: int | None = None
    recompiles: int | None = None
    hardware: str = ""


def measure(
    question: ModelQuestion, observe: Callable[[str], None] = lambda _: None
) -> tuple[list[ModeResult], str]:
    """Check the candidate in every mode, then play the rounds of those that passed; names the hardware, too.

    Raises `SideFailedError` where the model cannot be loaded at all.
    """
    judged: dict[str, dict[str, Any]] = {}
    wanted = list(question.modes)
    if not question.device.startswith("cuda"):
        graphs = [each for each in wanted if "graphs" in each]
        wanted = [each for each in wanted if each not in graphs]
        judged |= {each: {"skipped": _NO_GRAPHS.format(question.device)} for each in graphs}
    hardware = ""
    if question.checks and wanted:
        observe("checking what the model computes")
        with SideProcess(question.timeout_s) as checking:
            hardware = checking.ask("load", **question.task_of_check())["hardware"]
            judged |= checking.ask("judge", modes=wanted)["modes"]
    results = []
    for mode in question.modes:
        said = judged.get(mode, {})
        quality = msgspec.convert(said["verdict"], QualityVerdict) if "verdict" in said else None
        kernels: dict[str, list[str]] = said.get("device_kernels", {})
        try:
            _require_right(said, quality)
            played = _play(question, mode, observe)
            hardware = played.hardware
            results.append(_result(question, mode, played, quality, kernels))
        except _EndedError as ended:
            results.append(ModeResult(mode, ended.status, ended.why, quality=quality))
    return results, hardware


def _require_right(said: dict[str, Any], quality: QualityVerdict | None) -> None:
    """Raise `_EndedError` where the check says that there is nothing to measure."""
    for status in ("skipped", "failed"):
        if status in said:
            raise _EndedError(status, said[status])
    if quality is not None and not quality.is_accepted:
        raise _EndedError("failed", f"it is another model: {quality.why}")


def _play(question: ModelQuestion, mode: str, observe: Callable[[str], None]) -> _Played:
    played = _Played()
    for at in range(question.rounds):
        observe(f"{mode}: round {at + 1} of {question.rounds}")
        with SideProcess(question.timeout_s) as old, SideProcess(question.timeout_s) as new:
            _round(question, mode, old, new, played, is_swapped=bool(at % 2))
    return played


def _round(
    question: ModelQuestion,
    mode: str,
    old: SideProcess,
    new: SideProcess,
    played: _Played,
    *,
    is_swapped: bool,
) -> None:
    """Time one pair of processes in turns; every other pair starts in the other order."""
    sides = ((old, False), (new, True))
    turns = sides[::-1] if is_swapped else sides
    for side, is_new in turns:
        side.send("load", **question.task(is_new=is_new))
    for side, is_new in turns:
        played.hardware = _ask_for(side, is_new)["hardware"]
    took_ns: dict[str, float] = {}
    for side, is_new in turns:
        side.send("warm", mode=mode)
        warmed = _ask_for(side, is_new)
        if is_new:
            played.use = msgspec.convert(warmed["use"], ModeUse)
            if played.use.unused:
                raise _EndedError("failed", "; ".join(played.use.unused))
        else:
            took_ns = warmed["step_ns"]
    calls = {"prefill": 1, "decode": question.steps}
    for phase in PHASES:
        wanted_ns = question.sample_ms * _NS_PER_MS
        repeats = max(1, round(wanted_ns / (took_ns[phase] * calls[phase])))
        samples = played.samples[phase]
        samples.old.append([])
        samples.new.append([])
        for block in range(question.blocks):
            for side, is_new in turns if block % 2 else turns[::-1]:
                side.send("sample", mode=mode, phase=phase, repeats=repeats)
                found = _ask_for(side, is_new)["ns"]
                (samples.new if is_new else samples.old)[-1].append(found)
    for side, is_new in sides:
        side.send("finish", mode=mode)
        ended = _ask_for(side, is_new)
        played.memory_mib[is_new].append(ended["memory_mib"])
        if is_new:
            played.breaks, played.recompiles = ended["breaks"], ended["recompiles"]


def _ask_for(side: SideProcess, is_new: bool) -> dict[str, Any]:
    """Await an answer; a baseline that does not run says nothing about the candidate."""
    try:
        return side.answer()
    except SideFailedError as error:
        if is_new:
            raise _EndedError("failed", str(error)) from error
        raise _EndedError("skipped", f"the baseline does not run: {error}") from error


def _result(
    question: ModelQuestion,
    mode: str,
    played: _Played,
    quality: QualityVerdict | None,
    kernels: dict[str, list[str]],
) -> ModeResult:
    use = played.use
    assert use is not None  # rounds are one at least
    seen = {
        phase: replace(each, device_kernels=tuple(kernels.get(phase, ())))
        for phase, each in use.phases.items()
    }
    return ModeResult(
        mode=mode,
        status="passed",
        why="",
        phases=tuple(_phase(question, phase, played, use) for phase in PHASES),
        old_memory_mib=_figure(played.memory_mib[False]),
        new_memory_mib=_figure(played.memory_mib[True]),
        quality=quality,
        use=replace(use, phases=seen),
        graph_breaks=played.breaks,
        recompiles=played.recompiles,
    )


def _phase(question: ModelQuestion, phase: str, played: _Played, use: ModeUse) -> PhaseResult:
    samples = played.samples[phase]
    ratio = ratio_of(
        [
            block_ratios([[each] for each in old], [[each] for each in new])
            for old, new in zip(samples.old, samples.new, strict=True)
        ],
        threshold=question.threshold,
    )
    tokens = question.rows * (question.prompt if phase == "prefill" else 1)
    old, new = (
        [statistics.median(each) / _NS_PER_MS for each in side]
        for side in (samples.old, samples.new)
    )
    old_ms = statistics.median(old)
    left_ms = old_ms - use.phases[phase].saved_ms
    return PhaseResult(
        phase=phase,
        old_step_ms=_figure(old),
        new_step_ms=_figure(new),
        old_tokens_per_s=_figure([1e3 * tokens / each for each in old]),
        new_tokens_per_s=_figure([1e3 * tokens / each for each in new]),
        ratio=ratio.value,
        interval=ratio.interval,
        verdict=ratio.verdict.value,
        predicted=old_ms / left_ms if left_ms > 0 else None,
    )


def _figure(values: Sequence[float]) -> Figure:
    return Figure(statistics.median(values), median_interval(values))
