"""One architecture: a tiny model is derived, taken apart and verified; runs in a process of its own."""

from __future__ import annotations

import contextlib
import resource
import shutil
import signal
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from flashinfer_bench.data.files import write_whole
from flashinfer_bench.decompose.census.kinds import kernel_kinds
from flashinfer_bench.decompose.census.model_texts import NoTinyModelError, model_text
from flashinfer_bench.decompose.census.rows import ArchitectureRow, Examination
from flashinfer_bench.decompose.model_file import load_model_file
from flashinfer_bench.decompose.pipeline import take_apart
from flashinfer_bench.decompose.verify.findings import VerifyRequest
from flashinfer_bench.decompose.verify.stages import verify_folder
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flashinfer_bench.decompose.pipeline import Decomposition
    from flashinfer_bench.decompose.verify.findings import VerifyReport

_AGAIN_S = 0.25
_MEMORY_BYTES = 2 << 30
_SAID = 300


class OutOfTimeError(BaseException):
    """The processor time of an architecture is used up; no model's code catches it by accident."""


def examine(asked: Examination) -> dict[str, Any]:
    """Do all of it for one architecture, and say in plain data what came of it."""
    progress = _Attempt(asked)
    began_s = time.process_time()
    try:
        with _time_limit(asked.seconds):
            progress.run()
    except OutOfTimeError:
        progress.end("late", f"took more than {asked.seconds:g} s of processor time")
    except NoTinyModelError as error:
        stage, _, reason = str(error).partition(": ")
        progress.end("failed", reason, stage)
    except UsageError as error:
        progress.stop(str(error))
    except Exception as error:  # noqa: BLE001  # a fault of ours: it is counted, and the others go on
        progress.stop(f"internal fault: {type(error).__name__}: {error}")
    if not asked.is_kept:
        shutil.rmtree(progress.decomposed, ignore_errors=True)
    return {
        "row": asdict(ArchitectureRow(asked.name, **progress.row)),
        "cpu_seconds": round(time.process_time() - began_s, 3),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


class _Attempt:
    """How far an architecture has come."""

    def __init__(self, asked: Examination) -> None:
        self._asked = asked
        self._stage = "configuration"
        self.decomposed = asked.folder / "decomposed" / asked.name
        self.row: dict[str, Any] = {}

    def run(self) -> None:
        """Derive, take apart, verify."""
        file = self._derived()
        self._stage = "decomposition"
        found = take_apart(load_model_file(file))
        self._told(found)
        if found.trace.front_end == "opaque":
            raise UsageError("; ".join(found.trace.notes) or "it stays one piece")
        found.write(self.decomposed)
        self._stage = "verification"
        report = verify_folder(
            VerifyRequest(
                self.decomposed,
                seeds=2,
                memory_limit_bytes=_MEMORY_BYTES,
                exports=False,
                may_change=True,
            )
        )
        self._judged(report)

    def stop(self, reason: str) -> None:
        """Write down that something was raised; what was taken apart before stays so."""
        self.end("decomposed" if self._stage == "verification" else "failed", reason)

    def end(self, status: str, reason: str, stage: str = "") -> None:
        """Write down where it ended, and why."""
        home = f"{self._asked.folder.resolve()}/"
        words = " ".join(reason.replace(home, "").replace(f"{self._asked.folder}/", "").split())
        self.row |= {"status": status, "stage": stage or self._stage, "reason": words[:_SAID]}

    def _derived(self) -> Path:
        made = model_text(self._asked.library, self._asked.name)
        self.row |= {
            "model": made.model,
            "parameters": made.parameters,
            "step": made.step,
            "is_overridden": made.is_overridden,
        }
        file = self._asked.folder / "models" / f"{self._asked.name}.py"
        write_whole(file, made.text.encode())
        return file

    def _told(self, found: Decomposition) -> None:
        counts = found.counts
        self.row |= {
            "operations": len(found.trace.ops),
            "kernels": counts["kernel"]["instances"],
            "different_kernels": counts["kernel"]["nodes"],
            "front_end": found.trace.front_end,
            "kinds": kernel_kinds(found.pieces),
        }

    def _judged(self, report: VerifyReport) -> None:
        self.row["equality"] = report.equality
        self.row["weak_workloads"] = sum(each.code == "FILE-weak" for each in report.findings)
        if report.passed:
            self.end("verified", "", "verification")
        else:
            self.end("decomposed", _why_not(report))


def _why_not(report: VerifyReport) -> str:
    """Give the codes of all errors and the first of them, else the stage that was not reached."""
    errors = [each for each in report.findings if each.severity == "error"]
    if errors:
        codes = ", ".join(sorted({each.code for each in errors}))
        return f"{codes}: {errors[0].file}: {errors[0].message}"
    rung = next(each for each in report.rungs if each.verdict != "pass")
    said = "; ".join(filter(None, (rung.detail, *report.notes)))
    return f"{rung.name}: {rung.verdict}: {said}"


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Interrupt what runs once it has used so much processor time, again and again until it gives up."""
    end_s = time.process_time() + seconds

    def interrupt(*_: object) -> None:
        if (
            time.process_time() >= end_s
        ):  # the timer counts in ticks; on a busy machine it runs ahead
            raise OutOfTimeError

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, _AGAIN_S, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
