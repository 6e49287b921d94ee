"""A problem and its candidates in our engine's terms: a definition, workloads, solutions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from flashinfer_bench.data import BuildSpec, Definition, Solution, SourceFile, TensorSpec, Workload
from flashinfer_bench.data.shapes import AxisConst, DType
from flashinfer_bench.data.workload import InputSpec, RandomInput, SafetensorsInput, ScalarInput
from flashinfer_bench.kernelbench.library import label_of, local_sources, read_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from flashinfer_bench.data.shapes import AxisSpec
    from flashinfer_bench.kernelbench.descriptions import Description, Input, Output


OP_TYPE = "kernelbench"
SEED = "weight_seed"
COMPILED = "torch_compile"
_DSL = re.compile(r"^\s*(?:import|from)\s+(triton|tilelang)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProblemTask:
    """A problem, and what is known of it."""

    problem: Path
    description: Description
    folder: str
    """Where its fixed inputs lie, relative to the dataset's root."""

    @property
    def name(self) -> str:
        """Its definition's name."""
        return definition_name(self.problem)


def definition_of(task: ProblemTask) -> Definition:
    """Make the definition: its reference builds the problem's model under a seed that is its last input."""
    found = task.description
    return Definition(
        name=task.name,
        op_type=OP_TYPE,
        axes=axes_of([*found.inputs, *found.outputs]),
        inputs={**input_specs(found.inputs), SEED: TensorSpec(shape=None, dtype=DType.INT64)},
        outputs=output_specs(found.outputs),
        reference=_reference(task),
        tags=[f"source:kernelbench/{label_of(task.problem)}"],
        description=f"{task.problem.name}, whose weights {SEED} decides",
    )


def workload_of(task: ProblemTask, seed: int) -> Workload:
    """Make the workload of one seed of the weights."""
    given = workload_inputs(task.description, task.folder, seed)
    inputs: dict[str, InputSpec] = {SEED: ScalarInput(value=seed), **given}
    return Workload(axes={}, inputs=inputs, uuid=f"{task.name}_seed{seed}")


def candidate_of(task: ProblemTask, candidate: Path, name: str, device_kind: str) -> Solution:
    """Make the solution that runs a candidate's class in place of the problem's."""
    text = read_source(candidate)
    language = match[1] if (match := _DSL.search(text)) else "python"
    sources = {f"candidate/{path}": body for path, body in local_sources(candidate).items()}
    named = f'candidate=HERE / "candidate" / {candidate.name!r}'
    return _solution(task, name, named, sources, language=language, device_kind=device_kind)


def compiled_of(task: ProblemTask, device_kind: str) -> Solution:
    """Make the solution that is the problem's own model under `torch.compile`."""
    return _solution(
        task,
        f"{task.name}__{COMPILED}",
        "is_compiled=True",
        {},
        language="python",
        device_kind=device_kind,
    )


def _solution(
    task: ProblemTask,
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


def _reference(task: ProblemTask) -> str:
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


def _run_function(task: ProblemTask) -> str:
    names = ", ".join([*(each.name for each in task.description.inputs), SEED])
    return f"def run({names}):\n    return CALL({names})\n"


def _packing(found: Description) -> str:
    return (
        f"Packing({found.template!r}, is_random={found.is_random}, "
        f"written={found.written!r}, shared={found.shared!r})"
    )


class _Shaped(Protocol):
    @property
    def shape(self) -> tuple[int, ...] | None: ...
    @property
    def dtype(self) -> str: ...


class _NamedTensor(_Shaped, Protocol):
    @property
    def name(self) -> str: ...


def definition_name(problem: Path) -> str:
    """Name a problem's definition: `level1_1_Square_matrix`."""
    return label_of(problem).replace("/", "_")


def axes_of(tensors: Iterable[_Shaped]) -> dict[str, AxisSpec]:
    """Give each size an axis of its own; KernelBench's sizes never vary."""
    sizes = {size for each in tensors for size in each.shape or ()}
    return {f"n{size}": AxisConst(value=size) for size in sorted(sizes)}


def input_specs(given: Iterable[_NamedTensor], *, role: str | None = None) -> dict[str, TensorSpec]:
    """Describe what goes in, over those axes."""
    return {each.name: _spec(each, role) for each in given}


def output_specs(made: Iterable[Output]) -> dict[str, TensorSpec]:
    """Describe what comes out."""
    return {f"y{index}": _spec(each) for index, each in enumerate(made)}


def _spec(tensor: _Shaped, role: str | None = None) -> TensorSpec:
    named = None if tensor.shape is None else [f"n{size}" for size in tensor.shape]
    content: dict[str, Any] = {"shape": named, "dtype": tensor.dtype}
    return TensorSpec.model_validate(content | ({"role": role} if role else {}))


def workload_inputs(found: Description, folder: str, seed: int) -> dict[str, InputSpec]:
    """Say where the content of each input comes from; what is stored lies in `folder`."""
    return {each.name: _content(each, folder, seed) for each in found.inputs}


def _content(given: Input, folder: str, seed: int) -> InputSpec:
    match given.source:
        case "scalar":
            assert given.value is not None
            return ScalarInput(value=given.value)
        case "file":
            path = f"{folder}/inputs_{seed}.safetensors"
            return SafetensorsInput(path=path, tensor_key=given.name, scaled=given.is_scaled)
        case "random":
            return RandomInput.model_validate({"distribution": given.distribution})
