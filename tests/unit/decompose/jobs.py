"""Work of many endings, for tests of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from flashinfer_bench.errors import UsageError


def double(number: int, *, plus: int = 0) -> dict[str, Any]:
    sys.stdout.write(f"doubling {number}\n")
    return {"result": [number * 2 + plus], "torch": "torch" in sys.modules}


def hang() -> None:
    time.sleep(100)


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def leave() -> None:
    sys.stdout.write("so long\n")
    sys.stdout.flush()
    os._exit(7)


def end() -> None:
    sys.exit(3)


def refuse() -> None:
    raise UsageError("model.py defines no class Model")


def fault() -> float:
    return 1 / 0


def fill_with_tensors() -> int:
    import torch

    held = []
    while True:
        held.append(torch.ones(1 << 24))


def fill_with_bytes() -> int:
    return len(bytearray(10**11))


def answer_with_what_is_no_json() -> Any:
    return fault


def start_another(path: str) -> int:
    child = subprocess.Popen(["sleep", "1000"])
    Path(path).write_text(str(child.pid))
    time.sleep(100)
    return 0


def parent() -> int:
    return os.getppid()
