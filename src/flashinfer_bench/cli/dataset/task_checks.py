"""The check `task`: what running a task showed becomes findings."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from flashinfer_bench.bench.weakness import percent, sameness
from flashinfer_bench.cli.dataset.running_checks import baselines_of, how_it_ended, require_torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from flashinfer_bench.bench import BenchmarkConfig
    from flashinfer_bench.bench.benchmark import Step
    from flashinfer_bench.bench.protocol import TaskLinted, TrivialAnswer, Variation
    from flashinfer_bench.bench.tools.task_linter import Seen, Task
    from flashinfer_bench.data.rules import Finding, Level
    from flashinfer_bench.data.rules.snapshot import Snapshot

_BLIND_SHARE = 0.9  # of wrong elements let pass


def task_findings(
    dataset: Snapshot, names: Sequence[str], config: BenchmarkConfig, *, device: str
) -> Iterator[Finding]:
    """Look at each definition's smallest workload, and let its baselines agree with it.

    Codes: TSK-01 to TSK-10.
    """
    from flashinfer_bench.bench.tools.task_linter import let_agree, look_at  # noqa: PLC0415  # pydantic

    require_torch("the check `task`")
    tasks = list(_tasks(dataset, names))
    sound = []
    for task, seen in look_at(tasks, [dataset.root], config, device=device):
        yield from _said_of(task, seen)
        if _is_sound(seen):
            sound.append(task)
    if sound:
        for step in let_agree(sound, dataset.root, config, device=device):
            yield from _disagreement(step)


def _tasks(dataset: Snapshot, names: Sequence[str]) -> Iterator[Task]:
    from flashinfer_bench.bench.tools.task_linter import Task, smallest  # noqa: PLC0415  # pydantic

    for name in names:
        definition = dataset.definitions.get(name)
        documents = dataset.workloads_by_definition.get(name, [])
        workloads = [each.entity.workload for each in documents if each.entity is not None]
        if definition is not None and workloads:
            workload = smallest(definition, workloads)
            yield Task(definition, workload, tuple(baselines_of(dataset, name)))


def _is_sound(seen: Seen) -> bool:
    from flashinfer_bench.bench.protocol import TaskLinted  # noqa: PLC0415  # msgspec

    return isinstance(seen, TaskLinted) and not seen.disagreement


def _said_of(task: Task, seen: Seen) -> Iterator[Finding]:
    from flashinfer_bench.bench.protocol import TaskLinted  # noqa: PLC0415  # msgspec
    from flashinfer_bench.bench.tools.task_linter import Unseen, Unsound  # noqa: PLC0415

    name = task.definition.name
    match seen:
        case Unsound(explanation=explanation):
            yield _finding("TSK-01", _in_a_line(explanation), name)
        case Unseen(reason=reason):
            yield _finding("TSK-10", f"skipped: {reason}", name)
        case TaskLinted():
            yield from _of_reference(seen, name)
            yield from _of_answers(seen.answers, name)
            yield from _of_variations(seen.variations, name)


def _of_reference(seen: TaskLinted, name: str) -> Iterator[Finding]:
    for note in seen.illegal:
        yield _finding("TSK-09", f"input {note.code!r}: {note.evidence}", name)
    if seen.disagreement:
        how = _in_a_line(seen.disagreement)
        message = f"the reference, run twice on the same inputs, differs: {how}"
        yield _finding("TSK-02", message, name)
    if seen.randomness:
        how = _in_a_line(seen.randomness)
        message = f"the reference gives something else after another `torch.manual_seed`: {how}"
        yield _finding("TSK-03", message, name)
    if seen.has_same_calls:
        yield _finding("TSK-08", "all calls of a trial get the same inputs", name)


def _of_answers(answers: Iterable[TrivialAnswer], name: str) -> Iterator[Finding]:
    by_output: defaultdict[str, list[TrivialAnswer]] = defaultdict(list)
    for answer in answers:
        by_output[answer.output].append(answer)
    for output, group in by_output.items():
        accepted = [each for each in group if each.is_accepted]
        blind = max(group, key=lambda each: each.forgiven_share)
        if accepted:
            which = ", ".join(f"{e.answer} ({percent(e.matched_ratio)} match)" for e in accepted)
            yield _finding("TSK-05", f"passes as output {output!r}: {which}", name)
        elif blind.forgiven_share >= _BLIND_SHARE:
            message = (
                f"given {blind.answer} for output {output!r}, the judge lets "
                f"{percent(blind.forgiven_share)} of the wrong elements pass"
            )
            yield _finding("TSK-06", message, name)


def _of_variations(variations: Iterable[Variation], name: str) -> Iterator[Finding]:
    """Say it once an output: what is the same in all trials is the same in all calls."""
    said = set()
    for seen in variations:
        text = sameness(seen)
        if text and seen.output not in said:
            said.add(seen.output)
            yield _finding(
                "TSK-07", f"output {seen.output!r} of different {seen.between}: {text}", name
            )


def _disagreement(step: Step) -> Iterator[Finding]:
    from flashinfer_bench.bench.tools.task_linter import is_reference  # noqa: PLC0415  # pydantic
    from flashinfer_bench.data.rules import Level  # noqa: PLC0415

    solution, name = step.job.solution, step.job.definition.name
    how = how_it_ended(step)
    if how == "passed":
        return
    if how.startswith("was skipped"):
        yield _finding("TSK-10", f"{solution.name!r} {how}", name, level=Level.INFO)
    elif is_reference(solution):
        yield _finding("TSK-02", f"the reference, in a process of its own, {how}", name)
    else:
        yield _finding("TSK-04", f"baseline {solution.name!r} {how}", name)


def _finding(code: str, message: str, definition: str, *, level: Level | None = None) -> Finding:
    from flashinfer_bench.data.rules import OBSERVATIONS  # noqa: PLC0415  # pydantic

    return OBSERVATIONS[code].finding(message, definition, level=level)


def _in_a_line(text: str) -> str:
    """Keep what matters: the last line of a traceback, the first of anything else."""
    first, *rest = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    return f"{first} {rest[-1]}" if rest and first.endswith("raised") else first
