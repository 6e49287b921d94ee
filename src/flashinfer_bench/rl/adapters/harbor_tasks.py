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
from flashinfer_bench.rl.splits import FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashinfer_bench.data import Definition, Workload
    from flashinfer_bench.rl.policy_tasks import PolicyTask, PolicyTasks

WORK = "/app/kernel"
"""Where the agent writes its kernel; the one folder that the verifier gets of the agent's container."""
_TASK = """\
schema_version = "1.1"
artifacts = ["{work}"]

[task]
name = "flashinfer-bench/{name}"
description = {description}

[metadata]
category = "kernels"
definition = {definition}
split = "{split}"

[agent]
timeout_sec = 3600.0

[verifier]
timeout_sec = 1800.0
environment_mode = "separate"

[environment]
build_timeout_sec = 1800.0
cpus = 2
memory_mb = 8192
storage_mb = 20480
{gpus}"""
_DOCKERFILE = """\
FROM {image}
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
{torch}RUN pip install --no-cache-dir 'flashinfer-bench[{extra}]=={version}'
RUN mkdir -p {work}
WORKDIR {work}
"""
_TEST = """\
#!/bin/bash
# Judges the agent's kernel; writes no reward where there is no verdict, which Harbor takes as an error and not as a 0.
# bash test.sh [FOLDER OF THE KERNEL] [FOLDER OF THE REWARD]
work="${{1:-{work}}}"
logs="${{2:-/logs/verifier}}"
here="$(cd "$(dirname "$0")" && pwd)"
mkdir -p "$logs"
rm -f "$logs/reward.txt"
shopt -s nullglob
kernels=("$work"/kernel.*)
if [ "${{#kernels[@]}}" -ne 1 ]; then
  echo "expected one file kernel.py, kernel.cpp or kernel.cu in $work; found ${{#kernels[@]}}"
  echo 0.0 > "$logs/reward.txt"
  exit 0
fi
flashinfer-bench judge "${{kernels[0]}}" --definition {definition} --local "$here/dataset" \\
  --split {split} --device {device} --json > "$logs/verdict.json"
python3 - "$logs" <<'END'
import json
import pathlib
import sys

logs = pathlib.Path(sys.argv[1])
document = json.loads((logs / "verdict.json").read_text())
if "verdicts" not in document:
    sys.exit(document["error"]["message"])
(verdict,) = document["verdicts"]
if verdict["reward"] is None:
    sys.exit(f"no verdict ({{verdict['cause']}}): {{verdict['no_verdict']}}")
(logs / "reward.txt").write_text(f"{{verdict['reward']!r}}\\n")
END
"""
_SOLUTION = """\
#!/bin/bash
# The reference itself: right, and as fast as itself.
cp "$(dirname "$0")/kernel.py" "${{1:-{work}}}/kernel.py"
"""
_ASK = """

Write your kernel to `{work}/kernel.py`, `kernel.cpp` or `kernel.cu`: one file, which is all that is judged.
"""


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
    (place / "task.toml").write_text(_TASK.format(**quoted))
    (place / "instruction.md").write_text(task.prompt + _ASK.format(work=WORK))
    (place / "environment" / "Dockerfile").write_text(_DOCKERFILE.format(**values))
    _write_script(place / "tests" / "test.sh", _TEST.format(**values, definition=definition.name))
    _write_script(place / "solution" / "solve.sh", _SOLUTION.format(**values))
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
