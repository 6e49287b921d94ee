"""SOL: solutions can be read, belong to a definition, and have what their entry point names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement

from flashinfer_bench.data.build_options import joined, without_architecture
from flashinfer_bench.data.near_duplicates import near_duplicates
from flashinfer_bench.data.rules.finding import Level, RuleFault, rule
from flashinfer_bench.data.rules.layout import parts
from flashinfer_bench.data.rules.python_source import functions_of, takes
from flashinfer_bench.data.wording import did_you_mean, listed
from flashinfer_bench.text.numbers import count_text

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from flashinfer_bench.data.rules.snapshot import Document, Snapshot
    from flashinfer_bench.data.solution import Solution

_PYTHON = frozenset({"python", "triton", "tilelang"})


@rule("SOL-01", Level.INFO, "`flashinfer-bench new solution --definition NAME` makes one")
def definitions_have_solutions(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every definition has solutions."""
    if not dataset.solutions_by_definition and dataset.definition_files:
        yield RuleFault("no solutions of any definition")
        return
    for document in dataset.definition_files:
        definition = document.entity
        if definition is not None and definition.name not in dataset.solutions_by_definition:
            yield RuleFault("no solutions", definition=definition.name)


@rule("SOL-02", Level.ERROR, "correct the file; `flashinfer-bench schema solution` says how")
def solutions_parse(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every solution can be read."""
    for document in dataset.solution_files:
        if document.fault is not None:
            place = parts(document.path.removesuffix("/solution.toml"))
            owner = place[2] if place and place[2] in dataset.known_definitions else None
            yield RuleFault(document.fault, document.path, document.fault_line, owner)


@rule("SOL-07", Level.ERROR, "add the definition, or correct the name")
def solutions_have_definitions(dataset: Snapshot) -> Iterator[RuleFault]:
    """Every solution implements a definition that exists."""
    for document, solution in _readable(dataset):
        if solution.definition not in dataset.known_definitions:
            hint = did_you_mean(solution.definition, dataset.known_definitions)
            message = f"implements {solution.definition!r}, which does not exist{hint}"
            yield RuleFault(message, document.path)


@rule("SOL-08", Level.ERROR, "remove it, or correct its spelling")
def solutions_have_known_keys(dataset: Snapshot) -> Iterator[RuleFault]:
    """Solutions have no keys that nothing reads."""
    for document, solution in _readable(dataset):
        if document.unknown_keys is not None:
            message = document.unknown_keys
            yield RuleFault(message, document.path, document.fault_line, solution.definition)


@rule("SOL-09", Level.ERROR, "give one of them another name")
def solution_names_are_unique(dataset: Snapshot) -> Iterator[RuleFault]:
    """No two solutions of the dataset share a name."""
    first: dict[str, str] = {}
    for document, solution in _readable(dataset):
        other = first.setdefault(solution.name, document.path)
        if other != document.path:
            message = f"is called {solution.name!r}, as {other} is"
            yield RuleFault(message, document.path, None, solution.definition)


@rule("SOL-10", Level.INFO, "keep one of them, if that is not meant")
def solutions_differ(dataset: Snapshot) -> Iterator[RuleFault]:
    """No two solutions have the same content."""
    first: dict[str, str] = {}
    for document, solution in _readable(dataset):
        other = first.setdefault(solution.hash(), solution.name)
        if other != solution.name:
            message = f"{solution.name!r} is the same code as {other!r}"
            yield RuleFault(message, document.path, None, solution.definition)


@rule("SOL-16", Level.INFO, "say in `description` what is different, or keep one of them")
def solutions_are_not_nearly_the_same(dataset: Snapshot) -> Iterator[RuleFault]:
    """No two solutions of a definition differ in little but the names of variables."""
    paths = {solution.name: document.path for document, solution in _readable(dataset)}
    for definition, solutions in dataset.solutions_by_definition.items():
        for each in near_duplicates(solutions):
            message = f"{each.other!r} is {each.similarity:.0%} the same code as {each.one!r}"
            yield RuleFault(message, paths.get(each.other, ""), None, definition)


@rule("SOL-11", Level.WARNING, "correct the source, or `entry_point`")
def entry_points_exist(dataset: Snapshot) -> Iterator[RuleFault]:
    """The entry file of a solution in Python parses and binds the entry point."""
    for document, solution in _readable(dataset):
        source = solution.get_entry_source()
        if source is None or solution.spec.language not in _PYTHON:
            continue
        if functions_of(source.content) is None:
            message = f"{source.path} is no Python that parses"
            yield RuleFault(message, document.path, None, solution.definition)
        elif solution.get_entry_symbol() not in source.content:
            message = f"{source.path} does not mention {solution.get_entry_symbol()!r}"
            yield RuleFault(message, document.path, None, solution.definition)


@rule("SOL-12", Level.WARNING, "correct the function, or `destination_passing_style`")
def entry_points_take_the_arguments(dataset: Snapshot) -> Iterator[RuleFault]:
    """The entry point of a solution in Python can be called as it will be."""
    for document, solution in _readable(dataset):
        definition = dataset.definitions.get(solution.definition)
        entry = _entry(solution)
        if definition is None or entry is None:
            continue
        spec = solution.spec
        names = [*definition.inputs]
        names += definition.outputs if spec.destination_passing_style else ()
        names = ["state", *names] if spec.prepare or spec.plan else names
        if not takes(entry, len(names)):
            message = f"{spec.entry_point} does not take {count_text(len(names), 'argument')}: {listed(names)}"
            yield RuleFault(message, document.path, None, solution.definition)


@rule("SOL-13", Level.INFO, "move it out of the folder, if the solution does not need it")
def folders_hold_sources_only(dataset: Snapshot) -> Iterator[RuleFault]:
    """A solution's folder holds text only; other files are left out."""
    for document, solution in _readable(dataset):
        for remark in document.remarks:
            yield RuleFault(remark, document.path, None, solution.definition)


@rule("SOL-14", Level.WARNING, "write it as for pip: `numba>=0.60`")
def dependencies_are_requirements(dataset: Snapshot) -> Iterator[RuleFault]:
    """Dependencies are requirements as pip reads them; what is none is found on no machine."""
    for document, solution in _readable(dataset):
        for line in solution.spec.dependencies:
            try:
                Requirement(line)
            except InvalidRequirement:
                message = f"dependency {line!r} is no requirement"
                yield RuleFault(message, document.path, None, solution.definition)


@rule("SOL-15", Level.INFO, "leave it out; `--arch` says what a run compiles for")
def architectures_are_left_to_the_device(dataset: Snapshot) -> Iterator[RuleFault]:
    """No build option names an architecture: the device's own is compiled for."""
    for document, solution in _readable(dataset):
        options = solution.spec.compile_options
        given = [] if options is None else joined("cuda_cflags", options.cuda_cflags)
        for option in sorted({*given} - {*without_architecture(given)}):
            message = f"{option} is left out of a build"
            yield RuleFault(message, document.path, None, solution.definition)


def _readable(dataset: Snapshot) -> Iterator[tuple[Document[Solution], Solution]]:
    for document in dataset.solution_files:
        if document.entity is not None:
            yield document, document.entity


def _entry(solution: Solution) -> ast.FunctionDef | None:
    """Find the entry function; None for what is imported, decorated or assigned."""
    source = solution.get_entry_source()
    if source is None or solution.spec.language not in _PYTHON:
        return None
    found = (functions_of(source.content) or {}).get(solution.get_entry_symbol())
    return None if found is None or found.decorator_list else found
