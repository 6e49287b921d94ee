"""What happens to a task, as it happens: for server-sent events, and for tools that wait."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from flashinfer_bench.serve import messages

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from flashinfer_bench.serve.service import Service
    from flashinfer_bench.serve.tokens import Requester

_LOOK_S = 15.0


async def task_events(
    service: Service, caller: Requester, task_id: str, after: int = 0
) -> AsyncGenerator[messages.TaskEvent | None, None]:
    """Give a task's events after a number, to its end or the server's; None where nothing happened for 15 s."""
    with service.changes.heard(task_id) as bell:
        while not service.changes.is_over:
            found, is_over = await run_in_threadpool(
                service.queue.events, task_id, caller.sees, after
            )
            for row in found:
                after = row["number"]
                yield messages.TaskEvent(
                    number=after,
                    time_s=row["time_s"],
                    kind=row["kind"],
                    data=json.loads(row["data"]),
                )
            if is_over:
                return
            if not await bell.wait(_LOOK_S):
                yield None
