"""The files of a task folder of Harbor, to be filled in."""

from __future__ import annotations

WORK = "/app/kernel"
"""Where the agent writes its kernel; the one folder that the verifier gets of the agent's container."""
TASK = """\
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
DOCKERFILE = """\
FROM {image}
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
{torch}RUN pip install --no-cache-dir 'flashinfer-bench[{extra}]=={version}'
RUN mkdir -p {work}
WORKDIR {work}
"""
TEST = """\
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
SOLUTION = """\
#!/bin/bash
# The reference itself: right, and as fast as itself.
cp "$(dirname "$0")/kernel.py" "${{1:-{work}}}/kernel.py"
"""
ASK = """

Write your kernel to `{work}/kernel.py`, `kernel.cpp` or `kernel.cu`: one file, which is all that is judged.
"""
