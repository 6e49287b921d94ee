"""`python -m flashinfer_bench.bench.sandbox.probe`: be shut in like a solution, and say what is not in force."""

from __future__ import annotations

import os
import sys
import tempfile

import msgspec

from flashinfer_bench.bench.sandbox import allowlist, enforcement
from flashinfer_bench.bench.sandbox.policy import SandboxPolicy
from flashinfer_bench.data import settings


def main() -> None:
    """Write a JSON list of what is missing; the folders it uses are removed by who starts it."""
    readable = allowlist.readable(settings.environment_copy())
    folder = tempfile.gettempdir()
    policy = SandboxPolicy("process", "cpu", scratch=folder, build_folder=folder)
    os.write(sys.stdout.fileno(), msgspec.json.encode(enforcement.enter(policy, readable=readable)))


if __name__ == "__main__":
    main()
