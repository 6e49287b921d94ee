"""Run a program that need not know of apply: `python -m flashinfer_bench.apply program.py …` or `-m module …`.

The dataset is the one the environment names; what was answered is said on stderr when the program ends.
"""

from __future__ import annotations

import atexit
import runpy
import sys
from pathlib import Path

from flashinfer_bench.apply.calling import enable_apply
from flashinfer_bench.errors import BenchError, DatasetNotFoundError

_USAGE = "usage: python -m flashinfer_bench.apply [-m] PROGRAM [ARGUMENTS]\n"
_HELP = f"""{_USAGE}
Runs a Python program, or with -m a module, and answers its kernels' calls with the fastest solutions of the
dataset that FIB_DATASET_PATH names. What was answered is said on stderr at the end. See docs/apply.md.

  FIB_DATASET_PATH=my_dataset python -m flashinfer_bench.apply serve.py --port 8000
"""


def main(words: list[str]) -> int:
    """Enable apply, then become the program."""
    is_module = words[:1] == ["-m"]
    program = words[is_module:]
    if words[:1] in (["-h"], ["--help"]):
        sys.stdout.write(_HELP)
        return 0
    if not program or program[0].startswith("-"):
        sys.stderr.write(_USAGE)
        return 2
    if not is_module and not Path(program[0]).is_file():
        sys.stderr.write(f"error: there is no program {program[0]!r}\n")
        return 2
    try:
        runtime = enable_apply()
    except DatasetNotFoundError as error:
        sys.stderr.write(f"error: {error}; FIB_DATASET_PATH names the dataset\n")
        return error.exit_code
    except BenchError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    atexit.register(lambda: sys.stderr.write(f"apply: {runtime.stats()}\n"))
    sys.argv = program
    if is_module:
        sys.path[0] = str(Path.cwd())
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
        return 0
    sys.path[0] = str(Path(program[0]).resolve().parent)
    runpy.run_path(program[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
