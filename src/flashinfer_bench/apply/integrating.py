"""Does a solution go into compiled models? `check --integration` runs this in a process of its own.

The kernel becomes an operator with a fake implementation from its definition, as exported ones are. Its calls are
watched, compiled at several sizes, recorded where there is a CUDA device, and compared with the reference.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.apply.comparing import OriginalComparison, TimedAnswer, copies_of, outputs_in
from flashinfer_bench.apply.config import ApplyConfig
from flashinfer_bench.apply.kernels import value_returning
from flashinfer_bench.apply.watching import SeenDoing, Watch, form_difference
from flashinfer_bench.compile import BuilderRegistry
from flashinfer_bench.data import Solution, TraceSet
from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.errors import BenchError
from flashinfer_bench.intercept.compiled import outputs_like
from flashinfer_bench.tensors.generate import InputMaker
from flashinfer_bench.tensors.planned import plan_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flashinfer_bench.data import Definition, Workload

_MOST_SIZES = 3
_MOST_GRAPHS = 2  # the first with its sizes as they are, the second for all of them
_HOST = "a full graph breaks there, a card waits, and a CUDA graph cannot record it"
_PER_SIZE = (
    "memory that stays is taken for more than one size: recorded graphs lose it, or it grows"
)
_CHECKS = ("test_schema", "test_faketensor")
_WARM_UPS = 3
_SCALARS = {"bool": "bool", "float": "float", "bfloat": "float"}


@dataclass
class IntegrationQuestion:
    """One question, and what was found."""

    name: str
    verdict: str = "holds"
    """`holds`, `refused` or `not tried`."""
    evidence: list[str] = field(default_factory=list)

    def refuse(self, *evidence: object) -> None:
        """Say no, and why."""
        self.verdict = "refused"
        self.evidence += [str(each) for each in evidence]

    def refuse_all(self, seen: Sequence[SeenDoing], why: str = "") -> None:
        """Say no for each thing that was seen; hold where there is none."""
        if seen:
            self.refuse(*seen, *filter(None, [why]))


class IntegrationSubject:
    """A kernel, its reference, and inputs at some sizes."""

    def __init__(self, trace_set: TraceSet, solution: Solution, device: str, compiler: str) -> None:
        self.trace_set = trace_set
        self.definition: Definition = trace_set.definitions[solution.definition]
        self.device = torch.device(device)
        self.compiler = compiler
        builders = BuilderRegistry.get_instance()
        self._runnable = builders.build(self.definition, solution)
        if self._runnable.metadata.absence is not None:
            raise BenchError(f"cannot run here: {self._runnable.metadata.absence}")
        self.reference = builders.build_reference(self.definition)
        misc = self._runnable.metadata.misc
        self.watch = Watch(Path(misc["folder"]) if "folder" in misc else None)
        self.workloads = _sizes(trace_set, self.definition)
        self.kept_at_first: list[list[SeenDoing]] = []
        """Memory that the first call of each size left behind."""
        self.kept_again: list[list[SeenDoing]] = []
        """And that a second call left, besides."""
        self._comparison = OriginalComparison(self.definition, ApplyConfig())
        self.fake = outputs_like(self.definition)

    def kernel(self, *inputs: Any) -> Any:
        """Call the kernel, whatever its style; gives what it returned."""
        return value_returning(self.definition, self._runnable, inputs)(*inputs)

    def inputs(self, workload: Workload, seed: int) -> tuple[Any, ...]:
        """Draw a workload's inputs."""
        files = {
            key: self.trace_set.get_workload_blob_tensor(source.path)[source.tensor_key]
            for key, source in workload.inputs.items()
            if source.type == "safetensors"
        }
        maker = InputMaker(plan_inputs(self.definition, workload), self.device, files=files)
        maker.open_trial(seed)
        return tuple(maker.prepare(seed, seed)[0])

    def misses(self, inputs: Sequence[Any], got: Any) -> str | None:
        """Say how an answer differs from the reference's for the same inputs."""
        expected = self.reference(*copies_of(inputs))
        verdict = self._comparison.hear(
            "kernel", inputs, TimedAnswer(lambda: got), TimedAnswer(lambda: expected)
        )
        return None if verdict.is_accepted else verdict.explanation

    def operator(self) -> Any:
        """Register the kernel as an operator, as `export solution` does."""
        single = len(self.definition.outputs) == 1

        def run(*inputs: Any) -> Any:
            outputs = outputs_in(self.kernel(*inputs))
            return outputs[0] if single else tuple(outputs)

        made = torch.library.custom_op(
            "fib_check::kernel",
            run,
            mutates_args=tuple(self.definition.mutated_inputs),
            schema=_schema(self.definition),
        )
        made.register_fake(self.fake)
        return made


def _sizes(trace_set: TraceSet, definition: Definition) -> list[Workload]:
    """Choose the smallest workloads of different sizes; those with a length of one last, for compilers fix it."""
    by_axes = {
        tuple(sorted(each.workload.axes.items())): each.workload
        for each in trace_set.workloads[definition.name]
    }
    found = sorted(
        by_axes.values(), key=lambda each: (1 in each.axes.values(), sum(each.axes.values()))
    )
    return found[:_MOST_SIZES]


def _schema(definition: Definition) -> str:
    taken = []
    for at, (name, spec) in enumerate(definition.inputs.items()):
        kind = _SCALARS.get(spec.dtype.rstrip("0123456789"), "int")
        if spec.shape is not None:
            kind = f"Tensor(a{at}!)" if name in definition.mutated_inputs else "Tensor"
        taken.append(f"{kind} {name}")
    given = ", ".join("Tensor" for _ in definition.outputs)
    return f"({', '.join(taken)}) -> {given if len(definition.outputs) == 1 else f'({given})'}"


def steps_of(subject: IntegrationSubject) -> Iterator[IntegrationQuestion]:
    """Ask each question in turn; without right answers there is nothing more to ask."""
    right = _agrees(subject)
    yield right
    if right.verdict == "refused":
        return
    operator = subject.operator()
    yield _fits_declaration(subject, operator)
    yield _is_one_graph(subject, operator)
    yield _has_dynamic_sizes(subject, operator)
    capture, replayed = _recorded(subject)
    yield capture
    yield _follows_contents(subject, operator, replayed)


def _agrees(subject: IntegrationSubject) -> IntegrationQuestion:
    """Watch the first calls of each size, and compare them with the reference."""
    step = IntegrationQuestion("answers")
    for workload in subject.workloads:
        inputs = subject.inputs(workload, 1)
        try:
            for kept in (subject.kept_at_first, subject.kept_again):
                got = subject.watch.call(subject.kernel, copies_of(inputs))
                why = subject.misses(inputs, got)
                del got
                kept.append(subject.watch.watched.kept())
        except Exception as error:  # noqa: BLE001 - whatever a kernel raises
            why = f"raises {type(error).__name__}: {_first_line(error)}"
        if why:
            step.refuse(f"{axes_text(workload.axes)}: {why}")
            return step
    return step


def _fits_declaration(subject: IntegrationSubject, operator: Any) -> IntegrationQuestion:
    step = IntegrationQuestion("operator")
    step.refuse_all(subject.watch.watched.fakes)
    for workload in subject.workloads:
        inputs = subject.inputs(workload, 1)
        outputs = outputs_in(subject.kernel(*copies_of(inputs)))
        fakes = outputs_in(subject.fake(*inputs))
        for name, fake, real in zip(subject.definition.outputs, fakes, outputs, strict=False):
            off = ("a tensor", "nothing") if real is None else form_difference(fake, real)
            if off and step.verdict == "holds":
                where = axes_text(workload.axes)
                step.refuse(f"{where}: {name} is {off[1]}, its fake from the definition {off[0]}")
    if step.verdict == "holds":
        inputs = subject.inputs(subject.workloads[0], 1)
        _tried(step, lambda: torch.library.opcheck(operator, inputs, test_utils=_CHECKS))
    return step


def _is_one_graph(subject: IntegrationSubject, operator: Any) -> IntegrationQuestion:
    step = IntegrationQuestion("full graph")
    step.refuse_all(subject.watch.watched.reads, _HOST)
    compiled, graphs = _compiled(subject, operator)
    inputs = subject.inputs(subject.workloads[0], 1)
    if _tried(step, lambda: compiled(*inputs)) and len(graphs) != 1:
        step.refuse(f"{len(graphs)} graphs")
    return step


def _has_dynamic_sizes(subject: IntegrationSubject, operator: Any) -> IntegrationQuestion:
    step = IntegrationQuestion("dynamic sizes")
    if len(subject.workloads) < 2:  # noqa: PLR2004
        return IntegrationQuestion("dynamic sizes", "not tried", ["the workloads have one size"])
    step.refuse_all(_kept_by_size(subject), _PER_SIZE)
    compiled, graphs = _compiled(subject, operator)
    for workload in subject.workloads:
        inputs = subject.inputs(workload, 2)
        if not _tried(step, partial(compiled, *inputs)):
            return step
    if len(graphs) > _MOST_GRAPHS:
        step.refuse(f"compiled {len(graphs)} times for {len(subject.workloads)} sizes")
    return step


def _kept_by_size(subject: IntegrationSubject) -> list[SeenDoing]:
    """Name lines that keep memory of more than one size, or of every call; what is made once may stay."""
    places = Counter(
        place for kept in subject.kept_at_first for place in {seen.place for seen in kept}
    )
    found = [seen for kept in subject.kept_at_first for seen in kept if places[seen.place] > 1] + [
        seen for kept in subject.kept_again for seen in kept
    ]
    return list({seen.place: seen for seen in found}.values())


def _recorded(subject: IntegrationSubject) -> tuple[IntegrationQuestion, Callable[..., Any] | None]:
    """Record a call as a CUDA graph; gives what replays it on the memory of its first inputs."""
    if subject.device.type != "cuda":
        return IntegrationQuestion("capture", "not tried", ["CUDA graphs need a CUDA device"]), None
    step = IntegrationQuestion("capture")
    memory = subject.inputs(subject.workloads[0], 1)
    graph = torch.cuda.CUDAGraph()

    def record() -> Any:
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # untyped in torch
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UPS):
                subject.kernel(*memory)
        torch.cuda.current_stream().wait_stream(aside)
        with torch.cuda.graph(graph):
            return subject.kernel(*memory)

    made: list[Any] = []
    if not _tried(step, lambda: made.append(record())):
        return step, None

    def replayed(*inputs: Any) -> Any:
        _copy_into(memory, inputs)
        graph.replay()
        torch.cuda.synchronize()
        return made[0]

    return step, replayed


def _follows_contents(
    subject: IntegrationSubject, operator: Any, replayed: Callable[..., Any] | None
) -> IntegrationQuestion:
    """Call again with other contents in the same memory, and in other memory of the same size."""
    step = IntegrationQuestion("replay")
    compiled, _ = _compiled(subject, operator)
    workload = subject.workloads[0]
    memory = subject.inputs(workload, 3)

    def called(inputs: Sequence[Any]) -> Any:
        return (
            compiled(*copies_of(inputs)) if subject.definition.mutated_inputs else compiled(*inputs)
        )

    def same_memory() -> str | None:
        called(memory)
        inputs = subject.inputs(workload, 4)
        _copy_into(memory, inputs)
        return subject.misses(inputs, called(memory))

    def other_memory() -> str | None:
        inputs = subject.inputs(workload, 5)
        return subject.misses(inputs, called(inputs))

    def two_answers() -> str | None:
        first = outputs_in(subject.kernel(*copies_of(memory)))
        before = copies_of(first)
        subject.kernel(*copies_of(subject.inputs(workload, 5)))
        for now, then in zip(first, before, strict=True):
            if now is not None and not torch.equal(now.nan_to_num(), then.nan_to_num()):
                return "it changed with the next call: outputs lie in memory that is used again"
        return None

    def recorded() -> str | None:
        if replayed is None:
            return None
        inputs = subject.inputs(workload, 6)
        return subject.misses(inputs, replayed(*inputs))

    for where, question in (
        ("other contents in the same memory", same_memory),
        ("the same size in other memory", other_memory),
        ("an earlier answer", two_answers),
        ("a replayed graph with other contents", recorded),
    ):
        misses: list[str] = []
        if _tried(step, partial(_ask, question, misses)) and misses:
            step.refuse(f"{where}: {misses[0].partition(chr(10))[0]}")
    if step.verdict == "refused":
        kept = [seen for each in subject.kept_at_first for seen in each]
        by_place = {seen.place: str(seen) for seen in (*kept, *subject.watch.watched.addresses)}
        step.evidence += by_place.values()
    return step


def _ask(question: Callable[[], str | None], misses: list[str]) -> None:
    if miss := question():
        misses.append(miss)


def _copy_into(memory: Sequence[Any], inputs: Sequence[Any]) -> None:
    for mine, theirs in zip(memory, inputs, strict=True):
        if isinstance(mine, torch.Tensor):
            mine.copy_(theirs)


def _compiled(subject: IntegrationSubject, operator: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Compile a function around the operator; gives the graphs that it becomes, too."""
    graphs: list[Any] = []
    compiler = torch._dynamo.lookup_backend(subject.compiler)

    def backend(graph: Any, examples: Any) -> Any:
        graphs.append(graph)
        return compiler(graph, examples)

    def step(*inputs: Any) -> Any:
        outputs = operator(*inputs)
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        return tuple(each + 0 if each.is_floating_point() else each for each in several)

    torch.compiler.reset()
    return torch.compile(step, backend=backend, fullgraph=True), graphs


def _tried(step: IntegrationQuestion, action: Callable[[], Any]) -> bool:
    try:
        with torch.no_grad():
            action()
    except Exception as error:  # noqa: BLE001 - whatever compiler and kernel raise is the evidence
        step.refuse(_first_line(error))
        return False
    return True


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))


def main(words: Sequence[str]) -> None:
    """Read what to try from a file, and print the steps as JSON."""
    asked = json.loads(Path(words[0]).read_text(encoding="utf-8"))
    trace_set = TraceSet.from_path(asked["root"])
    solution = Solution.model_validate_json(asked["solution"])
    try:
        subject = IntegrationSubject(trace_set, solution, asked["device"], asked["compiler"])
        found = list(steps_of(subject))
    except BenchError as error:
        found = [IntegrationQuestion("answers", "refused", [str(error)])]
    sys.stdout.write(json.dumps([asdict(step) for step in found]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
