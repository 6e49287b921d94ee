"""What is shown while jobs run: a live view on a terminal, a line per job on a pipe."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

import click

from flashinfer_bench.cli import log, screen
from flashinfer_bench.report.jobs import job_line, with_log_excerpt
from flashinfer_bench.report.logs import headline
from flashinfer_bench.text.numbers import duration_text
from flashinfer_bench.text.tables import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from rich.live import Live

    from flashinfer_bench.bench.jobs import Job
    from flashinfer_bench.report.jobs import JobResult

_REFRESH_S = 0.5
_BAR_WIDTH = 24


class ProgressView(Protocol):
    """Gets what happens, and shows it or does not."""

    shows_failures: bool
    """Whether each failed job leaves a line."""

    def started(self, device: str, job: Job) -> None:
        """A device began a job."""
        ...

    def waiting(self, device: str, holder: str) -> None:
        """A device is in use by another benchmark; `holder` is a clause that says by which."""
        ...

    def building(self, solutions: Sequence[str], left: int) -> None:
        """Solutions are compiled, ahead of their jobs; none are when that is over for now."""
        ...

    def lost(self, device: str, reason: str) -> None:
        """A device does no more; others do what it left."""
        ...

    def finished(self, job: Job, result: JobResult | None) -> None:
        """A job ended; None if it left no trace."""
        ...

    def __enter__(self) -> ProgressView: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class _NothingToClose:
    """Leaves the screen as it is."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


class Lines(_NothingToClose):
    """One line per finished job, on stdout or, when that takes a document, on stderr."""

    def __init__(self, *, to_stderr: bool = False, is_quiet: bool = False) -> None:
        self._to_stderr = to_stderr
        self.shows_failures = not is_quiet

    def started(self, device: str, job: Job) -> None:
        """Say nothing; the end of a job is worth a line."""

    def waiting(self, device: str, holder: str) -> None:
        """Say why nothing happens."""
        log.inform(waiting_text(device, holder))

    def building(self, solutions: Sequence[str], left: int) -> None:
        """Say nothing, as of what else comes before a job's end."""

    def lost(self, device: str, reason: str) -> None:
        """Say which, and why."""
        log.warn(lost_text(device, reason))

    def finished(self, job: Job, result: JobResult | None) -> None:  # noqa: ARG002  # the protocol's
        """Print the job's line."""
        if result is not None and self.shows_failures:
            click.echo(job_line(result), err=self._to_stderr, color=False)


class JsonLines(_NothingToClose):
    """One JSON object a line on stdout, as things happen, for programs."""

    shows_failures = True

    def __init__(self, planned: int, skipped: int) -> None:
        self._counts: dict[str, object] = {"planned": planned, "skipped": skipped}

    def started(self, device: str, job: Job) -> None:
        """Say which job."""
        self._say("started", device=device, **_named(job))

    def waiting(self, device: str, holder: str) -> None:
        """Say for what."""
        self._say("waiting", device=device, message=waiting_text(device, holder))

    def building(self, solutions: Sequence[str], left: int) -> None:
        """Say which, and how many more are planned."""
        self._say("building", solutions=solutions, left=left)

    def lost(self, device: str, reason: str) -> None:
        """Say which, and why."""
        self._say("lost", device=device, reason=reason)

    def finished(self, job: Job, result: JobResult | None) -> None:
        """Give the job as the document has it; null where it left no trace, and its names all the same."""
        told = None if result is None else with_log_excerpt(result)
        self._say("finished", **_named(job), job=told)

    def _say(self, event: str, **values: object) -> None:
        screen.show_json_line({"event": event, **values})

    def __enter__(self) -> Self:
        self._say("planned", **self._counts)
        return super().__enter__()


def _named(job: Job) -> dict[str, str]:
    return {
        "definition": job.definition.name,
        "solution": job.solution.name,
        "workload": job.workload.uuid,
    }


class ProgressTally:
    """Counts jobs and knows the time; what the live view draws."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total
        self._clock = clock
        self._began_s = clock()
        self._passed = 0
        self._failed = 0
        self._other = 0
        self._doing: dict[str, str] = {}
        self._building = ""

    def building(self, what: str) -> None:
        """Note what is compiled; nothing when nothing is."""
        self._building = what

    def started(self, device: str, what: str) -> None:
        """Note what a device does."""
        self._doing[device] = what

    def finished(self, *, passed: bool | None) -> None:
        """Count a job; `passed` is None for one that left no trace."""
        self._passed += passed is True
        self._failed += passed is False
        self._other += passed is None

    def text(self) -> str:
        """Draw the state of things."""
        done = self._passed + self._failed + self._other
        elapsed_s = self._clock() - self._began_s
        share = done / self._total if self._total else 1.0
        bar = "=" * round(share * _BAR_WIDTH)
        counts = f"{done}/{self._total} jobs, {self._passed} passed, {self._failed} failed"
        times = f"{duration_text(elapsed_s)} elapsed"
        if 0 < done < self._total:
            times += f", about {duration_text(elapsed_s / done * (self._total - done))} left"
        lines = [f"[{bar:<{_BAR_WIDTH}}] {counts}, {times}"]
        lines += [f"  {device}: {what}" for device, what in sorted(self._doing.items())]
        lines += [f"  {self._building}"] if self._building else []
        return "\n".join(lines)


class LiveView:
    """Redraws a few lines on stderr when something happened, twice a second at most.

    Drawing costs time on the machine that is being measured: nothing spins, and nothing wakes up while a
    job runs, but for one drawing that was put off.
    """

    def __init__(self, total: int, *, lists_passed: bool = False) -> None:
        self.shows_failures = True
        self._lists_passed = lists_passed
        self._tally = ProgressTally(total)
        self._live = _live()
        self._drawn_s = 0.0
        self._put_off: threading.Timer | None = None

    def started(self, device: str, job: Job) -> None:
        """Show the job."""
        self._tally.started(device, f"{job.definition.name} · {job.label}")
        self._draw_soon()

    def waiting(self, device: str, holder: str) -> None:
        """Show why nothing happens."""
        self._tally.started(device, waiting_text(device, holder))
        self._draw_soon()

    def building(self, solutions: Sequence[str], left: int) -> None:
        """Show what is compiled."""
        self._tally.building(building_text(solutions, left))
        self._draw_soon()

    def lost(self, device: str, reason: str) -> None:
        """Leave a line that stays."""
        self._tally.started(device, "lost")
        self._live.console.print(lost_text(device, reason), markup=False, highlight=False)

    def finished(self, job: Job, result: JobResult | None) -> None:  # noqa: ARG002  # the protocol's
        """Count the job; a failure stays on the screen, or each job where that is wanted."""
        self._tally.finished(passed=None if result is None else result.is_passed)
        if result is not None and (self._lists_passed or not result.is_passed):
            self._live.console.print(job_line(result), markup=False, highlight=False)

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._put_off is not None:
            self._put_off.cancel()
        self._live.__exit__(kind, error, trace)

    def _draw_soon(self) -> None:
        wait_s = self._drawn_s + _REFRESH_S - time.monotonic()
        if wait_s <= 0:
            self._draw()
        elif self._put_off is None or not self._put_off.is_alive():
            self._put_off = threading.Timer(wait_s, self._draw)
            self._put_off.daemon = True
            self._put_off.start()

    def _draw(self) -> None:
        from rich.text import Text  # noqa: PLC0415  # only a terminal needs rich

        self._drawn_s = time.monotonic()
        text = Text(self._tally.text(), no_wrap=True, overflow="ellipsis")
        self._live.update(text, refresh=True)


def choose_view(total: int, *, as_json: bool) -> ProgressView:
    """Take the live view on a terminal, lines elsewhere; on a pipe the lines are results."""
    is_quiet = log.is_quiet(click.get_current_context())
    if as_json:
        return Lines(to_stderr=True, is_quiet=is_quiet)
    if screen.is_terminal() and (is_quiet or not screen.has_live_stderr()):
        return Lines(is_quiet=is_quiet)
    return LiveView(total) if screen.is_terminal() else Lines()


def waiting_text(device: str, holder: str) -> str:
    """Say why nothing happens."""
    return printable(f"{device} is in use by another benchmark{holder}; waiting for it")


def lost_text(device: str, reason: str) -> str:
    """Say that a device does no more.

    >>> lost_text("cuda:1", "the judge did not start on cuda:1: CUDA error")
    'cuda:1 does no more jobs: the judge did not start on cuda:1: CUDA error'
    """
    return printable(f"{device} does no more jobs: {headline(reason)}")


def building_text(solutions: Sequence[str], left: int) -> str:
    """Say what is compiled ahead; nothing when nothing is.

    >>> building_text(["gelu", "relu"], 3)
    'building ahead: gelu, relu; 3 more to look at'
    """
    if not solutions:
        return ""
    more = f"; {left} more to look at" if left else ""
    return printable(f"building ahead: {', '.join(solutions)}{more}")


def _live() -> Live:
    from rich.console import Console  # noqa: PLC0415  # only a terminal needs rich
    from rich.live import Live  # noqa: PLC0415

    console = Console(stderr=True, no_color=screen.allows_color() is False)
    return Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
