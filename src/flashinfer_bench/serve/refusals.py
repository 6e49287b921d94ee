"""What the service refuses, as an HTTP status and a sentence."""

from __future__ import annotations

from flashinfer_bench.errors import UsageError


class RefusedError(UsageError):
    """A request that is not done: its HTTP status, and when to try again where that helps."""

    def __init__(self, status: int, sentence: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.retry_after_s = retry_after_s


def no_task(task_id: str) -> RefusedError:
    """Say that there is no such task, whether it is another tenant's or nobody's."""
    return RefusedError(404, f"no task {shortened(task_id)!r}; `GET /tasks` lists yours")


def shortened(text: str, most: int = 60) -> str:
    """Cut what somebody sent to what a sentence holds."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
