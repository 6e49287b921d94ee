"""Rounds of asking, judging and telling what became of it; accepted is what held on workloads never shown."""

from __future__ import annotations

import re
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from flashinfer_bench.agents.generation.prompting import code_in, messages_for, prompt_hash
from flashinfer_bench.agents.generation.splitting import scratch
from flashinfer_bench.cli.measure.kernel_files import (
    LANGUAGES_BY_SUFFIX,
    Hints,
    solution_from,
)
from flashinfer_bench.data import EvaluationStatus
from flashinfer_bench.data.trace import GenerationInfo
from flashinfer_bench.errors import DeviceError, UsageError
from flashinfer_bench.stats.means import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flashinfer_bench.agents.generation.endpoint import Message, ModelReply
    from flashinfer_bench.agents.generation.splitting import WorkloadSplit
    from flashinfer_bench.bench.config import BenchmarkConfig
    from flashinfer_bench.data import Definition, Solution, Trace, TraceSet, Workload

Verdict = Literal["accepted", "refused", "failed", "no_kernel"]
_SUFFIXES = {language: suffix for suffix, language in reversed(LANGUAGES_BY_SUFFIX.items())}
_REFUSED = (
    "It is right for the sizes that you were told, and wrong for others: it must be right for any."
)
_MILLION = 1e6
_NO_CODE = "The answer has no code block: answer with one that holds the whole file."


class Model(Protocol):
    """Whoever is asked."""

    model: str
    address: str

    def ask(self, messages: Sequence[Message]) -> ModelReply:
        """Answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationLimits:
    """How long the search goes on."""

    rounds: int
    width: int
    most_tokens: int
    most_device_s: float


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """What an endpoint takes for a million tokens, in US dollars."""

    prompt_usd: float
    completion_usd: float


@dataclass(slots=True)
class Spent:
    """What was used up so far."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    device_s: float = 0.0

    def is_over(self, limits: GenerationLimits) -> bool:
        """Whether nothing more may be begun."""
        tokens = self.prompt_tokens + self.completion_tokens
        return tokens >= limits.most_tokens or self.device_s >= limits.most_device_s

    def cost_usd(self, prices: TokenPrices | None) -> float | None:
        """What the tokens cost; None where prices are not known."""
        if prices is None:
            return None
        cost = self.prompt_tokens * prices.prompt_usd
        return (cost + self.completion_tokens * prices.completion_usd) / _MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedCandidate:
    """A kernel that a model wrote, and what became of it."""

    round: int
    verdict: Verdict
    code: str
    solution: Solution | None
    visible: tuple[Trace, ...] = ()
    held_out: tuple[Trace, ...] = ()
    parent: str | None = None
    prompt: str
    """Hash of the request."""
    told: str
    """What a model is told of it."""
    info: GenerationInfo | None = None

    @property
    def speedup(self) -> float | None:
        """Geometric mean of its speedups over all workloads that passed."""
        found = [
            each.evaluation.performance.speedup_factor
            for each in (*self.visible, *self.held_out)
            if each.evaluation and each.evaluation.performance
        ]
        return geometric_mean([each for each in found if each])

    def passed_count(self, traces: Sequence[Trace]) -> int:
        """Count jobs that passed."""
        return sum(map(_is_passed, traces))

    @property
    def rank(self) -> tuple[int, int, float]:
        """What the best one has most of."""
        order = ("no_kernel", "failed", "refused", "accepted")
        return order.index(self.verdict), self.passed_count(self.visible), self.speedup or 0.0


@dataclass(slots=True, kw_only=True)
class Search:
    """One search for a kernel of a definition."""

    trace_set: TraceSet
    definition: Definition
    language: str
    split: WorkloadSplit
    model: Model
    config: BenchmarkConfig
    device: str
    limits: GenerationLimits
    feedback: Callable[[Sequence[Trace], Solution], str]
    """Writes what became of jobs, for the model."""
    prices: TokenPrices | None = None
    note: Callable[[str, dict[str, Any]], None] = lambda _, __: None
    """Hears of every request, answer and verdict, for a transcript."""
    spent: Spent = field(default_factory=Spent)

    def run(self) -> Iterator[GeneratedCandidate]:
        """Give each candidate as soon as it is judged; stop iterating to stop the work."""
        best: GeneratedCandidate | None = None
        for number in range(1, self.limits.rounds + 1):
            for each in self._round(number, best):
                best = each if best is None or each.rank > best.rank else best
                yield each
            if self.spent.is_over(self.limits):
                return

    def _round(self, number: int, best: GeneratedCandidate | None) -> Iterator[GeneratedCandidate]:
        parent = None if best is None else (best.code, best.told)
        messages = messages_for(self.definition, self.split.visible, self.language, parent)
        parent_hash = best.solution.hash() if best is not None and best.solution else None
        begun = [
            each
            for each in (
                self._asked(number, messages, parent_hash) for _ in range(self.limits.width)
            )
            if each is not None
        ]
        kernels = {each.solution.hash(): each.solution for each in begun if each.solution}
        visible = self._judged(list(kernels.values()), self.split.visible)
        for each in begun:
            ended = each
            if each.solution is not None:
                ended = self._ended(each, visible.get(each.solution.hash(), ()))
            self.note("verdict", {"round": number, "verdict": ended.verdict, "told": ended.told})
            yield ended

    def _asked(
        self, number: int, messages: list[Message], parent: str | None
    ) -> GeneratedCandidate | None:
        """Ask for one kernel; None where no tokens are left."""
        if self.spent.is_over(self.limits):
            return None
        self.note("request", {"round": number, "model": self.model.model, "messages": messages})
        reply = self.model.ask(messages)
        self.spent.prompt_tokens += reply.prompt_tokens
        self.spent.completion_tokens += reply.completion_tokens
        self.note(
            "reply",
            {
                "round": number,
                "text": reply.text,
                "prompt_tokens": reply.prompt_tokens,
                "completion_tokens": reply.completion_tokens,
            },
        )
        code = code_in(reply.text)
        solution, why = (None, _NO_CODE) if code is None else self._solution(code)
        return GeneratedCandidate(
            round=number,
            verdict="failed" if solution else "no_kernel",
            code=code or reply.text,
            solution=solution,
            parent=parent,
            prompt=prompt_hash(messages),
            told=why,
        )

    def _solution(self, code: str) -> tuple[Solution | None, str]:
        """Make a solution of a file, or say why there is none."""
        with tempfile.TemporaryDirectory(prefix="flashinfer-bench-generate-") as folder:
            file = Path(folder, f"kernel{_SUFFIXES.get(self.language, '.py')}")
            file.write_text(code, encoding="utf-8", errors="replace")
            try:
                made = solution_from(file, self.definition, Hints(self.language, None, "cpu"))
            except UsageError as error:
                return None, str(error)
        hardware = {"cpp": ["cpu"], "cuda": ["cuda"]}.get(self.language, ["cpu", "cuda"])
        spec = made.spec.model_copy(update={"target_hardware": hardware})
        author = re.sub(r"[^A-Za-z0-9.-]+", "-", self.model.model).strip("-.") or "model"
        name = f"{self.definition.name}_{author}_{made.hash()[3:11]}"
        return made.model_copy(update={"name": name, "author": author, "spec": spec}), ""

    def _judged(
        self, solutions: Sequence[Solution], workloads: Sequence[Workload]
    ) -> dict[str, tuple[Trace, ...]]:
        """Run solutions on workloads; traces by the solution's hash."""
        from flashinfer_bench.bench import Benchmark  # noqa: PLC0415  # pydantic

        traces: dict[str, tuple[Trace, ...]] = {}
        store = scratch(self.trace_set, self.definition, workloads)
        store.solutions[self.definition.name] = list(solutions)
        began_s = time.monotonic()
        with Benchmark(store, self.config, device=self.device) as benchmark:
            planned = benchmark.plan()
            if solutions and planned.skipped and not planned.jobs:
                raise DeviceError(f"this machine cannot run them: {planned.skipped[0][1]}")
            for step in benchmark.run(planned, dump_traces=False):
                if step.trace is not None:
                    key = step.job.solution.hash()
                    traces[key] = (*traces.get(key, ()), step.trace)
        self.spent.device_s += time.monotonic() - began_s
        return traces

    def _ended(
        self, candidate: GeneratedCandidate, visible: tuple[Trace, ...]
    ) -> GeneratedCandidate:
        """Decide about a candidate; where all that it knew of passed, workloads that it did not know decide."""
        assert candidate.solution is not None
        told = self.feedback(visible, candidate.solution)
        if len(visible) < len(self.split.visible) or not all(map(_is_passed, visible)):
            return replace(candidate, verdict="failed", visible=visible, told=told)
        key = candidate.solution.hash()
        held_out = self._judged([candidate.solution], self.split.held_out).get(key, ())
        is_right = len(held_out) == len(self.split.held_out) and all(map(_is_passed, held_out))
        return replace(
            candidate,
            verdict="accepted" if is_right else "refused",
            visible=visible,
            held_out=held_out,
            told=told if is_right else _REFUSED,
            info=GenerationInfo(
                model=self.model.model,
                endpoint=self.model.address,
                parent=candidate.parent,
                prompt_hash=candidate.prompt,
                round=candidate.round,
                prompt_tokens=self.spent.prompt_tokens,
                completion_tokens=self.spent.completion_tokens,
                device_s=round(self.spent.device_s, 3),
                cost_usd=self.spent.cost_usd(self.prices),
            ),
        )


def _is_passed(trace: Trace) -> bool:
    return trace.evaluation is not None and trace.evaluation.status is EvaluationStatus.PASSED
