"""A GPU's clocks locked at their base frequency for as long as a process lives; a guard beside it frees them.

`python -m flashinfer_bench.bench.parent.clock_lock UUID` is the guard. It locks, says so in one line of JSON, and frees
the clocks when its standard input ends: whoever holds the other end was killed, or is done.
"""

from __future__ import annotations

import importlib
import json
import select
import signal
import subprocess
import sys
from typing import Any

from flashinfer_bench.errors import DeviceError

_STARTING_S, _ENDING_S = 30.0, 10.0
_BASE_CLOCK = 0xFFFFFF01  # NVML_CLOCK_LIMIT_ID_TDP: what the card holds under full load
_PERCENT = 100


class ClockLock:
    """One card's clocks, locked; `release` frees them, and so does the end of this process, however it comes."""

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self.clock_mhz: float | None = None
        """The clock they were locked at."""
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "flashinfer_bench.bench.parent.clock_lock", uuid],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # what kills our group leaves it alive
        )
        said = self._first_line()
        if "error" in said:
            self._guard.kill()
            self._guard.wait()
            raise DeviceError(f"--lock-clocks: {said['error']}")
        self.clock_mhz = said.get("clock_mhz")

    @property
    def guard_pid(self) -> int:
        """The process that frees them when this one is gone."""
        return self._guard.pid

    def release(self) -> None:
        """Free the clocks; by ourselves where the guard is gone."""
        assert self._guard.stdin is not None
        was_killed = self._guard.poll() is not None
        self._guard.stdin.close()
        try:
            was_killed |= self._guard.wait(_ENDING_S) != 0
        except subprocess.TimeoutExpired:
            self._guard.kill()
            was_killed = True
        if was_killed:
            free(self._uuid)

    def _first_line(self) -> dict[str, Any]:
        assert self._guard.stdout is not None
        ready, _, _ = select.select([self._guard.stdout], [], [], _STARTING_S)
        line = self._guard.stdout.readline() if ready else b""
        if not line:
            return {"error": f"the guard of the clocks did not answer within {_STARTING_S:g} s"}
        said: dict[str, Any] = json.loads(line)
        return said


def free(uuid: str) -> None:
    """Let a card choose its clocks again."""
    pynvml, handle = _opened(uuid)
    pynvml.nvmlDeviceResetGpuLockedClocks(handle)


def _opened(uuid: str) -> tuple[Any, Any]:
    pynvml: Any = importlib.import_module("pynvml")  # optional
    pynvml.nvmlInit()
    return pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)


def _lock(uuid: str) -> dict[str, Any]:
    try:
        pynvml, handle = _opened(uuid)
    except ImportError:
        return {
            "error": "nvidia-ml-py is not installed: pip install 'flashinfer-bench[cuda]', or leave it out"
        }
    except Exception as error:  # noqa: BLE001  # as above
        return {"error": f"NVML does not open: {error}"}
    try:
        pynvml.nvmlDeviceSetGpuLockedClocks(handle, _BASE_CLOCK, _BASE_CLOCK)
    except pynvml.NVMLError as error:
        remedy = "run as root or with CAP_SYS_ADMIN, or leave it out"
        return {"error": f"the driver says {error}: {remedy}. {_cost(pynvml, handle)}"}
    return {"clock_mhz": float(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))}


def _cost(pynvml: Any, handle: Any) -> str:
    """Say by how much times may differ while clocks are free: by as much as clocks do."""
    try:
        now = pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
        most = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)
    except pynvml.NVMLError:
        return "Without it the card chooses its clocks, and times vary with them"
    wider = round(_PERCENT * (most / max(1, now) - 1))
    return (
        f"Without it the card chooses its clocks: now {now} MHz, {most} MHz at most, "
        f"so a kernel that computes may take up to {wider}% longer at one time than at another"
    )


def main(uuid: str) -> None:
    """Lock, say so, wait until nobody is there any more, free."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    said = _lock(uuid)
    sys.stdout.write(f"{json.dumps(said)}\n")
    sys.stdout.flush()
    if "error" not in said:
        sys.stdin.buffer.read()
        free(uuid)


if __name__ == "__main__":
    main(sys.argv[1])
