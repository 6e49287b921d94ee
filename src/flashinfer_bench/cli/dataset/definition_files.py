"""An author's file becomes a definition of a dataset, with its first workloads."""

from __future__ import annotations

import math
import shlex
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.cli import log, screen
from flashinfer_bench.cli.datasets import dataset_paths
from flashinfer_bench.errors import MissingPackageError, UsageError, WorkerError
from flashinfer_bench.report.logs import log_lines
from flashinfer_bench.text.numbers import count_text
from flashinfer_bench.text.tables import heading, paragraph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashinfer_bench.data import Definition, TensorSpec, Workload
    from flashinfer_bench.data.rules import Finding
    from flashinfer_bench.data.scaffolding.definitions import Draft, SeenFunction
    from flashinfer_bench.data.scaffolding.reference_source import AuthorsFile

_OBSERVE_S = 600.0
_STARTING_S = 120.0
"""What the process may take beside the function: torch is imported first."""
_BARE = ("DEF-02", "DEF-03", "DEF-04", "DEF-05")
"""Rules that miss a description."""
_TRIVIAL_PASSES = "TSK-05"
_OF_THE_SIZE = 1e-2


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionOptions:
    """What the user asked for."""

    name: str | None
    source: str
    local: str | None
    op_type: str | None
    axes: tuple[str, ...]
    inputs: str | None
    device: str
    as_json: bool = False
    backward: bool = False


def make_definition(options: DefinitionOptions) -> int:
    """Observe the function, draft and write the definition, try it; 1 where it is not sound."""
    from flashinfer_bench.data.scaffolding.reference_source import read_authors_file  # noqa: PLC0415  # pydantic

    root = dataset_paths([options.local] if options.local else [])[0]
    path, _, function = options.source.partition("::")
    file = read_authors_file(Path(path).resolve(), function or None)
    with tempfile.TemporaryDirectory(prefix="flashinfer-bench-") as folder:
        how_long = f"{_OBSERVE_S:g} s; give it smaller example inputs"
        patience = Patience(_OBSERVE_S, how_long)
        seen = _seen(file, options.inputs, Path(folder), patience, backward=options.backward)
        drafted = _drafted(seen, file, options)
        further = _gradient_definitions(drafted.definition, seen)
        for each in (drafted.definition, *further):
            _require_new(root, each)
        _write(drafted, root, Path(folder))
    gradients = [_gradient_draft(each, drafted, root) for each in further]
    findings = _checked(drafted, root, options)
    for gradient in gradients:
        found = _checked(gradient, root, options)
        findings += [finding for finding in found if finding.code not in _BARE]
    is_sound = not any(finding.level == "error" for finding in findings)
    if options.as_json:
        _show_json([drafted, *gradients], root, findings, 0 if is_sound else 1)
        return 0 if is_sound else 1
    from flashinfer_bench.data.layout import Layout  # noqa: PLC0415

    title = f"definition {drafted.definition.name} of op type {drafted.definition.op_type}"
    file_name = Layout(root).definition_file(drafted.definition).name
    lines = [*_summary(drafted, seen, root), *_gradient_lines(gradients, root)]
    lines += [*_finding_lines(findings, file_name)]
    lines += _tolerance_lines(drafted, seen, root, findings)
    lines += _next_step(drafted.definition, options) if is_sound else []
    screen.show((heading(title), paragraph(*lines)))
    return 0 if is_sound else 1


def _gradient_definitions(forward: Definition, seen: SeenFunction) -> list[Definition]:
    from flashinfer_bench.data.scaffolding.gradients import (  # noqa: PLC0415
        backward_of,
        forward_backward_of,
    )

    if seen.gradients is None:
        return []
    return [backward_of(forward, seen.gradients), forward_backward_of(forward, seen.gradients)]


def _gradient_draft(definition: Definition, forward: Draft, root: Path) -> Draft:
    """Write a definition of gradients; its workloads are the forward one's, stored inputs included."""
    from flashinfer_bench.data.scaffolding.definitions import Draft  # noqa: PLC0415
    from flashinfer_bench.data.scaffolding.gradients import workload_of  # noqa: PLC0415

    drafted = Draft(definition, [workload_of(each, definition) for each in forward.workloads], [])
    _save(drafted, root)
    return drafted


def _gradient_lines(gradients: Sequence[Draft], root: Path) -> list[str]:
    from flashinfer_bench.data.layout import Layout  # noqa: PLC0415

    lines = []
    for each in gradients:
        definition = each.definition
        lines += ["", f"{Layout(root).definition_file(definition)}"]
        lines += [f"inputs   {'; '.join(_tensor_texts(definition.inputs))}"]
        lines += [f"outputs  {'; '.join(_tensor_texts(definition.outputs))}"]
    return lines


def _show_json(
    drafts: Sequence[Draft], root: Path, findings: Sequence[Finding], exit_code: int
) -> None:
    from flashinfer_bench.data.layout import Layout  # noqa: PLC0415

    layout = Layout(root)
    drafted, *gradients = drafts
    made: dict[str, object] = {
        "definition": drafted.definition.name,
        "op_type": drafted.definition.op_type,
        "file": str(layout.definition_file(drafted.definition)),
        "workload_file": str(layout.workload_file(drafted.definition)),
        "workloads": len(drafted.workloads),
        "notes": drafted.notes,
        "findings": [
            {"code": each.code, "level": each.level, "message": each.message, "remedy": each.remedy}
            for each in findings
        ],
    }
    if gradients:
        made["gradients"] = [
            {"definition": each.name, "file": str(layout.definition_file(each))}
            for each in (draft.definition for draft in gradients)
        ]
    screen.show_json({"schema_version": 1, "new": made}, exit_code)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a function may run on all of its example inputs, and how to say that it took longer."""

    limit_s: float
    how_long: str


def definition_for(reference: Path, root: Path, *, limit_s: float) -> Definition:
    """Make a definition and its workloads of a function and its example inputs; written under `root`, not tried."""
    from flashinfer_bench.data.scaffolding.reference_source import read_authors_file  # noqa: PLC0415  # pydantic

    file = read_authors_file(reference.resolve(), None)
    options = DefinitionOptions(
        name=None,
        source=str(reference),
        local=None,
        op_type=None,
        axes=(),
        inputs=None,
        device="auto",
    )
    patience = Patience(limit_s, f"{limit_s:g} s (--timeout)")
    with tempfile.TemporaryDirectory(prefix="flashinfer-bench-") as folder:
        drafted = _drafted(_seen(file, None, Path(folder), patience), file, options)
        _write(drafted, root, Path(folder))
    return drafted.definition


def _seen(
    file: AuthorsFile,
    inputs: str | None,
    folder: Path,
    patience: Patience,
    *,
    backward: bool = False,
) -> SeenFunction:
    """Run the author's file in a process that may load torch; what it prints goes to stderr."""
    import msgspec  # noqa: PLC0415

    from flashinfer_bench.cli.dataset.running_checks import has_torch  # noqa: PLC0415
    from flashinfer_bench.data.scaffolding.definitions import SeenFunction  # noqa: PLC0415

    if not has_torch():
        raise MissingPackageError("torch", extra="torch", needed_for="running the function")
    command = [sys.executable, "-m", "flashinfer_bench.tensors.observe", str(file.path)]
    command += [file.function, inputs or "-", str(folder), str(patience.limit_s)]
    command += ["backward"] if backward else []
    answer, fault, stack = (folder / name for name in ("seen.json", "fault.json", "stack.txt"))
    try:
        longest_s = _STARTING_S + patience.limit_s
        done = subprocess.run(command, stdout=sys.stderr, timeout=longest_s, check=False)
    except subprocess.TimeoutExpired:
        raise _too_long(file, "", patience) from None
    if fault.exists():
        report = msgspec.json.decode(fault.read_bytes())
        for line in log_lines(report["log"]) if report["log"] else ():
            log.inform(line)
        raise UsageError(report["message"])
    if not answer.exists() and stack.exists() and stack.stat().st_size:
        raise _too_long(file, stack.read_text(encoding="utf-8", errors="replace"), patience)
    if not answer.exists() and done.returncode < 0:
        ended = signal.Signals(-done.returncode).name
        raise UsageError(f"{file.path}: while {file.function!r} ran, {ended} ended its process")
    if not answer.exists():
        raise WorkerError(f"running {file.function} ended with {done.returncode} and no answer")
    return msgspec.json.decode(answer.read_bytes(), type=SeenFunction)


def _too_long(file: AuthorsFile, stack: str, patience: Patience) -> UsageError:
    from flashinfer_bench.bench.parent.stacks import where_it_was  # noqa: PLC0415

    of_main_thread = stack.rpartition("(most recent call first):")[2]
    where = where_it_was(of_main_thread, {str(file.path): file.text})
    said = f"{file.path}: the reference {file.function!r} did not return within {patience.how_long}"
    return UsageError(f"{said}{where}".rstrip())


def _drafted(seen: SeenFunction, file: AuthorsFile, options: DefinitionOptions) -> Draft:
    from pydantic import ValidationError  # noqa: PLC0415

    from flashinfer_bench.data.scaffolding.definitions import Wishes, draft  # noqa: PLC0415
    from flashinfer_bench.data.scaffolding.reference_source import (  # noqa: PLC0415
        reference_text,
        returned_names,
        shape_hints,
    )

    is_generic = file.function in {"run", "forward", "reference"}
    wishes = Wishes(
        function=file.path.stem if is_generic else file.function,
        reference=reference_text(file, list(seen.calls[0].inputs)),
        name=options.name,
        op_type=options.op_type,
        axes=dict(_axes(each) for each in options.axes),
        hints=shape_hints(file),
        output_names=returned_names(file),
    )
    try:
        return draft(seen, wishes)
    except ValidationError as error:
        raise UsageError(f"no definition can be made: {error.errors()[0]['msg']}") from None


def _axes(text: str) -> tuple[str, list[str]]:
    """Read one value of `--axes`.

    >>> _axes("x=tokens,hidden")
    ('x', ['tokens', 'hidden'])
    """
    name, equals, axes = text.partition("=")
    if not (name and equals and axes):
        raise UsageError(f"--axes {text}: write TENSOR=AXIS,AXIS, such as x=tokens,hidden")
    return name, axes.split(",")


def _require_new(root: Path, definition: Definition) -> None:
    from flashinfer_bench.data.layout import Layout, files_under  # noqa: PLC0415

    layout = Layout(root)
    layout.definition_file(definition)  # refuses what cannot be a file name
    for path in files_under(layout.definitions, ".json"):
        if Path(path).stem == definition.name:
            raise UsageError(
                f"there is a definition {definition.name!r} already: {path}; choose another name"
            )


def _write(drafted: Draft, root: Path, folder: Path) -> None:
    """Write stored inputs, the definition and its workloads."""
    definition = drafted.definition
    drafted.workloads = [_with_blobs(each, definition, folder, root) for each in drafted.workloads]
    _save(drafted, root)


def _save(drafted: Draft, root: Path) -> None:
    from flashinfer_bench.data import Trace, save_json_file, save_jsonl_file  # noqa: PLC0415
    from flashinfer_bench.data.layout import Layout  # noqa: PLC0415

    definition, layout = drafted.definition, Layout(root)
    save_json_file(definition, layout.definition_file(definition))
    traces = [Trace(definition=definition.name, workload=each) for each in drafted.workloads]
    save_jsonl_file(traces, layout.workload_file(definition))


def _with_blobs(workload: Workload, definition: Definition, folder: Path, root: Path) -> Workload:
    """Move stored inputs to their place, and say so in the workload, whose uuid follows."""
    from flashinfer_bench.data import SafetensorsInput, Workload  # noqa: PLC0415
    from flashinfer_bench.data.files import write_whole  # noqa: PLC0415
    from flashinfer_bench.data.layout import Layout  # noqa: PLC0415
    from flashinfer_bench.data.workload import uuid_of  # noqa: PLC0415

    blobs = Layout(root).blob_workloads / definition.op_type / definition.name
    inputs = dict(workload.inputs)
    for name, source in workload.inputs.items():
        if isinstance(source, SafetensorsInput):
            target = blobs / source.path
            write_whole(target, (folder / source.path).read_bytes())
            path = target.relative_to(root).as_posix()
            inputs[name] = SafetensorsInput(path=path, tensor_key=source.tensor_key)
    uuid = uuid_of(definition.name, workload.axes, inputs)
    return Workload(axes=workload.axes, inputs=inputs, uuid=uuid)


def _checked(drafted: Draft, root: Path, options: DefinitionOptions) -> list[Finding]:
    """Apply the rules to the new definition, run its reference as a benchmark would, and answers without work."""
    from flashinfer_bench.bench import BenchmarkConfig  # noqa: PLC0415
    from flashinfer_bench.cli.dataset.running_checks import benchmark_findings  # noqa: PLC0415
    from flashinfer_bench.cli.dataset.task_checks import task_findings  # noqa: PLC0415
    from flashinfer_bench.data import rules  # noqa: PLC0415

    name = drafted.definition.name
    dataset = rules.take(root)
    checks = ("layout", "definition", "workload")
    found = [each for each in rules.check(dataset, checks) if each.definition == name]
    if not any(each.level == "error" for each in found):
        ran = benchmark_findings(dataset, [name], device=options.device)
        found += [finding for finding in ran if finding.code != "BEN-03"]
    if not any(each.level == "error" for each in found):
        looked = task_findings(dataset, [name], BenchmarkConfig.default(), device=options.device)
        found += [finding for finding in looked if finding.code == _TRIVIAL_PASSES]
    return found


def _summary(drafted: Draft, seen: SeenFunction, root: Path) -> list[str]:
    from flashinfer_bench.data.layout import Layout  # noqa: PLC0415

    definition, layout = drafted.definition, Layout(root)
    count = count_text(len(drafted.workloads), "workload")
    return [
        f"{layout.definition_file(definition)}",
        f"{layout.workload_file(definition)} ({count}, from {seen.how})",
        "",
        f"axes     {'; '.join(_axis_texts(drafted))}",
        f"inputs   {'; '.join(_tensor_texts(definition.inputs))}",
        f"outputs  {'; '.join(_tensor_texts(definition.outputs))}",
        *(["", *(f"note: {note}" for note in drafted.notes)] if drafted.notes else []),
    ]


def _next_step(definition: Definition, options: DefinitionOptions) -> list[str]:
    words = ["new", "solution", "--definition", definition.name, "--language", "python"]
    words += ["--local", options.local] if options.local else []
    return ["", f"then     flashinfer-bench {shlex.join(words)}"]


def _axis_texts(drafted: Draft) -> list[str]:
    from flashinfer_bench.data import AxisConst, AxisExpr  # noqa: PLC0415

    texts = []
    for name, axis in drafted.definition.axes.items():
        match axis:
            case AxisConst(value=value):
                texts.append(f"{name} = {value}")
            case AxisExpr(expression=expression):
                texts.append(f"{name} = {expression}")
            case _:
                lengths = [str(workload.axes[name]) for workload in drafted.workloads]
                texts.append(f"{name} varies ({', '.join(lengths)})")
    return texts or ["none"]


def _tensor_texts(specs: Mapping[str, TensorSpec]) -> list[str]:
    return [
        f"{name}: {spec.dtype} "
        + ("scalar" if spec.shape is None else f"[{', '.join(spec.shape)}]")
        for name, spec in specs.items()
    ] or ["none"]


def _tolerance_lines(
    drafted: Draft, seen: SeenFunction, root: Path, findings: Sequence[Finding]
) -> list[str]:
    """Say which tolerance fits where answers without work pass: a hundredth of what the smallest output is like."""
    from flashinfer_bench.bench.config import ResolvedEvalConfig  # noqa: PLC0415
    from flashinfer_bench.data.layout import Layout  # noqa: PLC0415

    sizes = [each.size for call in seen.calls for each in call.outputs if each.size]
    if not sizes or all(each.code != _TRIVIAL_PASSES for each in findings):
        return []
    atol = 10.0 ** math.floor(math.log10(min(sizes) * _OF_THE_SIZE))
    usual = ResolvedEvalConfig().atol
    if atol >= usual:
        return []
    file = Layout(root).workload_file(drafted.definition).name
    return [
        f"→ outputs are of size {min(sizes):.1e} (root mean square), and `atol` is {usual:g}: write",
        f'  "tolerance": {{"atol": {atol:.0e}}} into each `workload` of {file}',
    ]


def _finding_lines(findings: Sequence[Finding], file: str) -> list[str]:
    """Write what was found; descriptions that are missing are one line, which says where they go."""
    bare = [
        each.message.removeprefix("no description").removeprefix(" of ") or "itself"
        for each in findings
        if each.code in _BARE
    ]
    findings = [each for each in findings if each.code not in _BARE]
    missing = [f"note: {file} has no `description` of {', '.join(bare)}"] if bare else []
    lines = [f"{each.level} {each.code} {each.message}" for each in findings]
    grave = (each for each in findings if each.level != "info" and each.remedy)
    remedies = dict.fromkeys(each.remedy for each in grave)
    lines = [*missing, *lines, *(f"→ {remedy}" for remedy in remedies)]
    return ["", *lines] if lines else []
