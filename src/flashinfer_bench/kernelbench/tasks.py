"""A problem and its candidates in our engine's terms: a definition, workloads, solutions."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data import BuildSpec, Definition, Solution, SourceFile, TensorSpec, Workload
from flashinfer_bench.data.shapes import AxisConst, DType
from flashinfer_bench.data.workload import (
    InputSpec,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
)
from flashinfer_bench.errors import UsageError
from flashinfer_bench.kernelbench.library import label_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from flashinfer_bench.kernelbench.descriptions import Description

OP_TYPE = "kernelbench"
SEED = "weight_seed"
COMPILED = "torch_compile"
_DSL = re.compile(r"^\s*(?:import|from)\s+(triton|tilelang)\b", re.MULTILINE)
_MOST_FILES = 200


@dataclass(frozen=True, slots=True)
class Task:
    """A problem, and what is known of it."""

    problem: Path
    description: Description
    folder: str
    """Where its fixed inputs lie, relative to the dataset's root."""

    @property
    def name(self) -> str:
        """Its definition's name."""
        return label_of(self.problem).replace("/", "_")


def definition_of(task: Task) -> Definition:
    """Make the definition: its reference builds the problem's model under a seed that is its last input."""
    found = task.description
    shapes = [each.shape or () for each in found.inputs] + [each.shape for each in found.outputs]
    sizes = sorted({size for shape in shapes for size in shape})
    axes = {f"n{size}": AxisConst(value=size) for size in sizes}
    inputs = {each.name: _tensor(each.shape, each.dtype) for each in found.inputs}
    outputs = {f"y{i}": _tensor(each.shape, each.dtype) for i, each in enumerate(found.outputs)}
    return Definition(
        name=task.name,
        op_type=OP_TYPE,
        axes=dict(axes),
        inputs={**inputs, SEED: TensorSpec(shape=None, dtype=DType.INT64)},
        outputs=outputs,
        reference=_reference(task),
        tags=[f"source:kernelbench/{label_of(task.problem)}"],
        description=f"{task.problem.name}, whose weights {SEED} decides",
    )


def workload_of(task: Task, seed: int) -> Workload:
    """Make the workload of one seed of the weights."""
    inputs: dict[str, InputSpec] = {SEED: ScalarInput(value=seed)}
    for each in task.description.inputs:
        if each.source == "scalar":
            assert each.value is not None
            inputs[each.name] = ScalarInput(value=each.value)
        elif each.source == "file":
            path = f"{task.folder}/inputs_{seed}.safetensors"
            inputs[each.name] = SafetensorsInput(
                path=path, tensor_key=each.name, scaled=each.is_scaled
            )
        else:
            inputs[each.name] = RandomInput.model_validate({"distribution": each.distribution})
    return Workload(axes={}, inputs=inputs, uuid=f"{task.name}_seed{seed}")


def candidate_of(task: Task, candidate: Path, name: str, device_kind: str) -> Solution:
    """Make the solution that runs a candidate's class in place of the problem's."""
    text = read_source(candidate)
    language = match[1] if (match := _DSL.search(text)) else "python"
    sources = {f"candidate/{path}": body for path, body in local_sources(candidate).items()}
    named = f'candidate=HERE / "candidate" / {candidate.name!r}'
    return _solution(task, name, named, sources, language=language, device_kind=device_kind)


def compiled_of(task: Task, device_kind: str) -> Solution:
    """Make the solution that is the problem's own model under `torch.compile`."""
    return _solution(
        task,
        f"{task.name}__{COMPILED}",
        "is_compiled=True",
        {},
        language="python",
        device_kind=device_kind,
    )


def local_sources(path: Path) -> dict[str, str]:
    """Read a file and the modules beside it that it imports, by their place relative to it."""
    folder = path.parent
    found = {path.name: read_source(path)}
    waiting = [path.name]
    while waiting:
        for name in _imported(found[waiting.pop()]):
            for file in _files_of_module(folder, name):
                relative = str(file.relative_to(folder))
                if relative not in found and len(found) < _MOST_FILES:
                    found[relative] = read_source(file)
                    waiting.append(relative)
    return found


def read_source(path: Path) -> str:
    """Read Python source."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as Python source: {error}") from None


def _solution(
    task: Task,
    name: str,
    argument: str,
    sources: Mapping[str, str],
    *,
    language: str,
    device_kind: str,
) -> Solution:
    problem = {f"problem/{path}": text for path, text in local_sources(task.problem).items()}
    main = "\n".join(
        [
            "from pathlib import Path",
            "",
            "from flashinfer_bench.kernelbench.calling import Caller, Packing",
            "",
            "HERE = Path(__file__).parent",
            f"PACKING = {_packing(task.description)}",
            f'CALL = Caller(HERE / "problem" / {task.problem.name!r}, PACKING, {argument})',
            "",
            "",
            _run_function(task),
        ]
    )
    everything = {"main.py": main, **problem, **sources}
    spec = {
        "language": language,
        "target_hardware": [device_kind],
        "entry_point": "main.py::run",
        "destination_passing_style": False,
    }
    return Solution(
        name=name,
        definition=task.name,
        author="kernelbench",
        spec=BuildSpec.model_validate(spec),
        sources=[SourceFile(path=path, content=text) for path, text in everything.items()],
    )


def _reference(task: Task) -> str:
    return "\n".join(
        [
            "from flashinfer_bench.kernelbench.calling import Caller, Packing",
            "",
            f"SOURCES = {local_sources(task.problem)!r}",
            f"PACKING = {_packing(task.description)}",
            f"CALL = Caller.of_sources(SOURCES, {task.problem.name!r}, PACKING)",
            "",
            "",
            _run_function(task),
        ]
    )


def _run_function(task: Task) -> str:
    names = ", ".join([*(each.name for each in task.description.inputs), SEED])
    return f"def run({names}):\n    return CALL({names})\n"


def _packing(found: Description) -> str:
    return (
        f"Packing({found.template!r}, is_random={found.is_random}, "
        f"written={found.written!r}, shared={found.shared!r})"
    )


def _tensor(shape: Sequence[int] | None, dtype: str) -> TensorSpec:
    names: Any = None if shape is None else [f"n{size}" for size in shape]
    return TensorSpec(shape=names, dtype=DType(dtype))


def _imported(text: str) -> set[str]:
    """Name the modules that a file imports, as far as it parses."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def _files_of_module(folder: Path, name: str) -> Iterable[Path]:
    file = folder / f"{name}.py"
    if file.is_file():
        return [file]
    package = folder / name
    return sorted(package.rglob("*.py")) if (package / "__init__.py").is_file() else []
