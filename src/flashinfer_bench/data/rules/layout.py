"""LAY: every file lies where its content says."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from flashinfer_bench.data.layout import name as file_name
from flashinfer_bench.data.rules.finding import Level, RuleFault, rule
from flashinfer_bench.data.rules.snapshot import stem
from flashinfer_bench.data.wording import listed
from flashinfer_bench.data.workload import SafetensorsInput
from flashinfer_bench.errors import UsageError
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flashinfer_bench.data.rules.snapshot import Snapshot
    from flashinfer_bench.data.solution import Solution

SHAPES = {
    "definitions": "definitions/<op_type>/<definition>.json",
    "workloads": "workloads/<op_type>/<definition>.jsonl",
    "solutions": "solutions/<author>/<op_type>/<definition>/<solution>",
    "traces": "traces/<author>/<op_type>/<definition>.jsonl",
}
_MOVE = "`validate --fix` moves it"


def parts(path: str) -> tuple[str, ...]:
    """Give the folders below the kind's own, and the file's stem; empty at an unexpected depth."""
    kind, *below = path.split("/")
    if kind not in SHAPES or len(below) != SHAPES[kind].count("/"):
        return ()
    return (*below[:-1], stem(below[-1]))


@rule("LAY-01", Level.ERROR, "delete one, or give it another name")
def one_file_per_definition(dataset: Snapshot) -> Iterator[RuleFault]:
    """No two files hold definitions of one name."""
    first: dict[str, str] = {}
    for document in dataset.definition_files:
        name = document.entity.name if document.entity else document.stem
        other = first.setdefault(name, document.path)
        if other != document.path:
            yield RuleFault(
                f"holds definition {name!r}, as {other} does", document.path, None, name
            )


@rule("LAY-02", Level.ERROR, _MOVE)
def definition_file_has_its_name(dataset: Snapshot) -> Iterator[RuleFault]:
    """A definition's file is called after it."""
    for document in dataset.definition_files:
        definition = document.entity
        if definition is not None and document.stem != definition.name:
            message = f"holds definition {definition.name!r}"
            yield RuleFault(message, document.path, None, definition.name)


@rule("LAY-03", Level.ERROR, _MOVE)
def definition_folder_is_op_type(dataset: Snapshot) -> Iterator[RuleFault]:
    """A definition lies in the folder of its op type."""
    for document in dataset.definition_files:
        definition, place = document.entity, parts(document.path)
        if definition is not None and place and place[0] != definition.op_type:
            message = f"op_type is {definition.op_type!r}, the folder {place[0]!r}"
            yield RuleFault(message, document.path, None, definition.name)


@rule("LAY-04", Level.ERROR, _MOVE)
def workload_folder_is_op_type(dataset: Snapshot) -> Iterator[RuleFault]:
    """Workloads lie in the folder of their definition's op type."""
    yield from _line_files_in_wrong_folder(dataset, "workloads", position=0)


@rule("LAY-05", Level.ERROR, "`validate --fix` moves the lines to the file of their definition")
def workload_file_is_of_one_definition(dataset: Snapshot) -> Iterator[RuleFault]:
    """A file of workloads holds those of the definition it is called after."""
    lines = (
        (each.path, each.line, each.entity.definition)
        for each in dataset.workload_lines
        if each.entity is not None and each.path.startswith("workloads/")
    )
    yield from _lines_of_other_definitions(dataset, lines)


@rule("LAY-06", Level.ERROR, _MOVE)
def solution_folder_is_author(dataset: Snapshot) -> Iterator[RuleFault]:
    """A solution lies in its author's folder."""
    yield from _solutions_in_wrong_folder(dataset, "author", position=0)


@rule("LAY-07", Level.ERROR, _MOVE)
def solution_folder_is_definition(dataset: Snapshot) -> Iterator[RuleFault]:
    """A solution lies in the folder of the definition it implements."""
    yield from _solutions_in_wrong_folder(dataset, "definition", position=2)


@rule("LAY-08", Level.ERROR, _MOVE)
def solution_file_has_its_name(dataset: Snapshot) -> Iterator[RuleFault]:
    """A solution's file or folder is called after it."""
    yield from _solutions_in_wrong_folder(dataset, "name", position=3)


@rule("LAY-09", Level.ERROR, _MOVE)
def solution_folder_is_op_type(dataset: Snapshot) -> Iterator[RuleFault]:
    """A solution lies under its definition's op type."""
    for document in dataset.solution_files:
        place = parts(document.path)
        definition = document.entity and dataset.definitions.get(document.entity.definition)
        if definition and place and place[1] != definition.op_type:
            message = f"the op type of {definition.name!r} is {definition.op_type!r}"
            message += f", the folder {place[1]!r}"
            yield RuleFault(message, document.path, None, definition.name)


@rule("LAY-10", Level.ERROR, _MOVE)
def trace_folder_is_op_type(dataset: Snapshot) -> Iterator[RuleFault]:
    """Traces lie under their definition's op type."""
    yield from _line_files_in_wrong_folder(dataset, "traces", position=1)


@rule("LAY-11", Level.ERROR, "`validate --fix` moves the lines to the file of their definition")
def trace_file_is_of_one_definition(dataset: Snapshot) -> Iterator[RuleFault]:
    """A file of traces holds those of the definition it is called after."""
    lines = (
        (each.path, each.line, each.definition)
        for each in dataset.trace_lines
        if each.fault is None and each.status is not None
    )
    yield from _lines_of_other_definitions(dataset, lines)


@rule("LAY-13", Level.WARNING, _MOVE)
def files_lie_at_their_depth(dataset: Snapshot) -> Iterator[RuleFault]:
    """Files lie as deep as the format says; this program reads any depth, others do not."""
    paths = [each.path for each in dataset.definition_files]
    paths += [each.path.removesuffix("/solution.toml") for each in dataset.solution_files]
    paths += [each.path for each in dataset.line_files]
    for path in paths:
        if not parts(path):
            kind = path.partition("/")[0]
            yield RuleFault(f"does not lie at {SHAPES[kind]}", path)


@rule("LAY-14", Level.INFO, "move it out of the dataset, or give it the suffix it needs")
def every_file_is_read(dataset: Snapshot) -> Iterator[RuleFault]:
    """No file lies among those of the dataset that nothing reads."""
    for path in dataset.stray_files:
        yield RuleFault("nothing reads a file of this name here", path)


@rule("LAY-15", Level.WARNING, "`validate --fix` moves the lines to the author's file")
def traces_lie_with_their_author(dataset: Snapshot) -> Iterator[RuleFault]:
    """Traces lie in the folder of the author whose solution ran."""
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], int] = {}
    for line in dataset.trace_lines:
        solution = dataset.solutions.get(line.solution or "")
        place = parts(line.path)
        if solution is not None and place and place[0] != solution.author:
            key = (line.path, solution.name)
            counts[key] += 1
            first.setdefault(key, line.line)
    for (path, name), count in counts.items():
        solution = dataset.solutions[name]
        message = f"{count_text(count, 'trace')} of {name!r}, which is by {solution.author!r}"
        yield RuleFault(message, path, first[path, name], solution.definition)


@rule("LAY-16", Level.ERROR, "use letters, digits, '_', '-' and '.'")
def names_can_be_file_names(dataset: Snapshot) -> Iterator[RuleFault]:
    """Names that become files and folders can be that."""
    for document in dataset.definition_files:
        if document.entity is not None:
            for key in ("name", "op_type"):
                text = getattr(document.entity, key)
                if not is_file_name(text):
                    message = f"{key} {text!r} cannot be a file or folder name"
                    yield RuleFault(message, document.path, None, document.entity.name)
    for solution in dataset.solution_files:
        if solution.entity is not None:
            for key in ("name", "author"):
                text = getattr(solution.entity, key)
                if not is_file_name(text):
                    message = f"{key} {text!r} cannot be a file or folder name"
                    yield RuleFault(message, solution.path, None, solution.entity.definition)


@rule("LAY-17", Level.WARNING, "`validate --fix` sets it aside in a file beside it")
def no_last_line_is_torn(dataset: Snapshot) -> Iterator[RuleFault]:
    """No file of lines ends in the middle of one; readers pass such a line over."""
    for file in dataset.line_files:
        if file.torn_line is not None:
            message = "the last line was cut short and is passed over"
            yield RuleFault(message, file.path, file.torn_line, _owner(dataset, file.path))


@rule("LAY-18", Level.INFO, "`validate --fix` adds the newline")
def last_lines_end(dataset: Snapshot) -> Iterator[RuleFault]:
    """Files of lines end with a newline."""
    for file in dataset.line_files:
        if file.lacks_newline:
            message = "the last line does not end with a newline"
            yield RuleFault(message, file.path, None, _owner(dataset, file.path))


@rule("LAY-19", Level.WARNING, "delete it, or add the workload that uses it")
def every_blob_is_used(dataset: Snapshot) -> Iterator[RuleFault]:
    """No stored tensors lie about that no workload uses."""
    used = {
        os.path.normpath(source.path)
        for document in dataset.workload_lines
        if document.entity is not None
        for source in document.entity.workload.inputs.values()
        if isinstance(source, SafetensorsInput)
    }
    for path in dataset.blob_files:
        if path not in used:
            yield RuleFault("no workload uses these tensors", path)


@rule("LAY-20", Level.WARNING, "is this the folder that holds `definitions/`?")
def there_are_definitions(dataset: Snapshot) -> Iterator[RuleFault]:
    """The dataset holds definitions."""
    if not dataset.definition_files:
        yield RuleFault("the dataset holds no definitions", "definitions")


@rule("LAY-21", Level.ERROR, "make the file readable")
def files_of_lines_can_be_read(dataset: Snapshot) -> Iterator[RuleFault]:
    """Files of lines can be read at all."""
    for file in dataset.line_files:
        if file.fault is not None:
            yield RuleFault(f"cannot be read: {file.fault}", file.path)


@rule(
    "LAY-22",
    Level.ERROR,
    "put a copy in the link's place, or name the other dataset with a further `--local`",
)
def no_link_leaves_the_dataset(dataset: Snapshot) -> Iterator[RuleFault]:
    """No link leads out of the dataset: it is refused, so that a dataset carries none of its reader's files away."""
    for path, message in dataset.leaving_links:
        yield RuleFault(message.rpartition(": ")[0], path, None, _owner(dataset, path))


@rule("LAY-23", Level.WARNING, "put a copy of the folder in the link's place")
def no_folder_is_a_link(dataset: Snapshot) -> Iterator[RuleFault]:
    """No folder within a kind's own is a link: such a folder is not entered."""
    for path in dataset.linked_folders:
        yield RuleFault("a link to a folder is not entered", path)


def is_file_name(text: str) -> bool:
    """Tell whether a text can be one part of a path."""
    try:
        file_name(text)
    except UsageError:
        return False
    return True


def _owner(dataset: Snapshot, path: str) -> str | None:
    name = stem(path)
    return name if name in dataset.known_definitions else None


def _line_files_in_wrong_folder(
    dataset: Snapshot, kind: str, *, position: int
) -> Iterator[RuleFault]:
    for file in dataset.line_files:
        place = parts(file.path)
        if not file.path.startswith(f"{kind}/") or not place:
            continue
        definition = dataset.definitions.get(place[-1])
        if definition is not None and place[position] != definition.op_type:
            message = f"the op type of {definition.name!r} is {definition.op_type!r}"
            message += f", the folder {place[position]!r}"
            yield RuleFault(message, file.path, None, definition.name)


def _lines_of_other_definitions(
    dataset: Snapshot, lines: Iterable[tuple[str, int | None, str]]
) -> Iterator[RuleFault]:
    """Report each file once, with all definitions it should not hold."""
    others: defaultdict[str, Counter[str]] = defaultdict(Counter)
    first: dict[str, int | None] = {}
    for path, line, definition in lines:
        if definition != stem(path):
            others[path][definition] += 1
            first.setdefault(path, line)
    for path, counts in others.items():
        message = f"{count_text(counts.total(), 'line')} of {listed(sorted(counts))}"
        yield RuleFault(message, path, first[path], _owner(dataset, path))


def _solutions_in_wrong_folder(
    dataset: Snapshot, key: str, *, position: int
) -> Iterator[RuleFault]:
    for document in dataset.solution_files:
        solution: Solution | None = document.entity
        place = parts(document.path)
        if solution is None or not place:
            continue
        said = str(getattr(solution, key))
        if said != place[position]:
            thing = "the file or folder" if key == "name" else "the folder"
            message = f"{key} is {said!r}, {thing} {place[position]!r}"
            yield RuleFault(message, document.path, None, solution.definition)
