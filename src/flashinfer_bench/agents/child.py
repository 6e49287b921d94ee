"""`python -m flashinfer_bench.agents.child COMMAND…`: a command that ends with whoever started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from flashinfer_bench.cli.main import cli

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run the command; where the process that started it dies, the kernel interrupts this one."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before the kernel was told
        raise SystemExit(130)
    cli(prog_name="flashinfer-bench")


if __name__ == "__main__":
    main()
