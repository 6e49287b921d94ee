"""A rank meets the others before it is shut in: afterwards no process of a job can open a connection."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from flashinfer_bench.bench.sandbox.policy import RankPlace

_HOST = "127.0.0.1"
_MEETING = timedelta(seconds=45)
_ELEMENTS = 1 << 10


def join(place: RankPlace, device: str, listener: int | None) -> None:
    """Make torch's default process group, and run each kind of collective once.

    `listener`: the socket that rank 0 inherits. Collectives open connections when they first run, so all that are
    needed are open at the end. `new_group` and whatever else connects later is refused by the sandbox.
    """
    store = dist.TCPStore(  # type: ignore[attr-defined]  # torch exports it, its stubs do not
        _HOST,
        place.port,
        place.world_size,
        is_master=listener is not None,
        timeout=_MEETING,
        wait_for_workers=False,
        master_listen_fd=listener,
    )
    here = torch.device(device)
    if here.type == "cuda":
        torch.cuda.set_device(here)
    dist.init_process_group(
        place.backend,
        store=store,
        rank=place.rank,
        world_size=place.world_size,
        device_id=here if here.type == "cuda" else None,
    )
    _run_each_once(here, place.rank, place.world_size)


def _run_each_once(device: torch.device, rank: int, count: int) -> None:
    sizes = [_ELEMENTS]
    if device.type == "cuda":  # NCCL connects in other ways for large messages
        sizes.append(_ELEMENTS << 12)
    for elements in sizes:
        own = torch.ones(elements * count, device=device)
        parts = list(own.chunk(count))
        dist.all_reduce(own)
        dist.broadcast(own, 0)
        dist.all_gather(parts, torch.ones_like(parts[0]))
        dist.all_gather_into_tensor(own, torch.ones_like(parts[0]))
        dist.reduce_scatter_tensor(torch.ones_like(parts[0]), own)
        dist.all_to_all_single(own, torch.ones_like(own))
        _pass_on(parts[0], rank, count)
    dist.barrier()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _pass_on(content: torch.Tensor, rank: int, count: int) -> None:
    """Send to every other rank, and receive from it."""
    others = [other for other in range(count) if other != rank]
    sent = [dist.P2POp(dist.isend, content, other) for other in others]
    received = [dist.P2POp(dist.irecv, torch.empty_like(content), other) for other in others]
    for work in dist.batch_isend_irecv([*sent, *received]):
        work.wait()
