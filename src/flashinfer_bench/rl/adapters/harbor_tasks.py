"""A dataset as task folders of Harbor: one a definition, verified in a container that the agent never had."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench import __version__
from flashinfer_bench.data import SafetensorsInput, Trace, TraceSet, save_json_file, save_jsonl_file
from flashinfer_bench.rl.adapters.harbor_templates import (
    ASK,
    DOCKERFILE,
    SOLUTION,
    TASK,
    TEST,
    WORK,
)
from flashinfer_bench.rl.splits import FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data import Definition, Workload
    from flashinfer_bench.rl.policy_tasks import PolicyTask, PolicyTasks


@dataclass(slots=True)
class HarborExport:
    """What an export wrote."""

    tasks: list[str] = field(default_factory=list)
    workloads: int = 0


def write_tasks(judging: PolicyTasks, folder: Path) -> HarborExport:
    """Write a folder for each task; raises `UsageError` where the split has none."""
    written = HarborExport()
    for task in judging.tasks():
        definition = judging.judging.definition(task.definition)
        place = folder / _folder_name(definition.name)
        _write_task(place, task, definition, judging.judging.device_kind())
        written.workloads += _write_dataset(place / "tests" / "dataset", judging, task, definition)
        written.tasks.append(place.name)
    return written


def _folder_name(name: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")


def _write_task(place: Path, task: PolicyTask, definition: Definition, device: str) -> None:
    is_cpu = device == "cpu"
    values = {
        "work": WORK,
        "name": place.name,
        "description": json.dumps(definition.description or f"A fast kernel of {definition.name}"),
        "split": task.split,
        "device": device,
        "version": __version__,
        "gpus": "" if is_cpu else "gpus = 1\n",
        "image": "python:3.11-slim" if is_cpu else "nvidia/cuda:13.0.0-devel-ubuntu24.04",
        "extra": "torch" if is_cpu else "cuda,triton",
        "torch": f"RUN pip install --no-cache-dir '{_torch()}' --index-url https://download.pytorch.org/whl/cpu\n"
        if is_cpu
        else "RUN apt-get update && apt-get install -y python3-pip python-is-python3\n"
        "ENV PIP_BREAK_SYSTEM_PACKAGES=1\n",
    }
    for part in ("environment", "tests", "solution"):
        (place / part).mkdir(parents=True)
    quoted = {**values, "definition": json.dumps(definition.name)}
    (place / "task.toml").write_text(TASK.format(**quoted))
    (place / "instruction.md").write_text(task.prompt + ASK.format(work=WORK))
    (place / "environment" / "Dockerfile").write_text(DOCKERFILE.format(**values))
    _write_script(place / "tests" / "test.sh", TEST.format(**values, definition=definition.name))
    _write_script(place / "solution" / "solve.sh", SOLUTION.format(**values))
    (place / "solution" / "kernel.py").write_text(definition.reference)


def _torch() -> str:
    """Pin the torch that is installed here, as anybody's build of it; any where there is none."""
    try:
        return f"torch=={importlib.metadata.version('torch').partition('+')[0]}"
    except importlib.metadata.PackageNotFoundError:
        return "torch"


def _write_script(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def _write_dataset(
    root: Path, judging: PolicyTasks, task: PolicyTask, definition: Definition
) -> int:
    """Write the definition and the workloads of the split alone, with the files that these read."""
    workloads = judging.judging.workloads(definition.name, task.split)
    source = judging.judging.trace_set
    layout = Path(definition.op_type)
    save_json_file(definition, root / "definitions" / layout / f"{definition.name}.json")
    traces = [Trace(definition=definition.name, workload=each) for each in workloads]
    save_jsonl_file(traces, root / "workloads" / layout / f"{definition.name}.jsonl")
    declared = {"workloads": {each.uuid: task.split for each in workloads}}
    (root / FILE).write_text(json.dumps(declared, indent=1) + "\n")
    for path in _stored(workloads):
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.find_blob(path), target)
    TraceSet.from_path(str(root))  # what is written can be read
    return len(workloads)


def _stored(workloads: Sequence[Workload]) -> set[str]:
    return {
        each.path
        for workload in workloads
        for each in workload.inputs.values()
        if isinstance(each, SafetensorsInput)
    }
