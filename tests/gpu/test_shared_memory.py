"""Outputs in memory of a card that two processes map: bit by bit, at once, and gone with the last mapping."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
import torch

from flashinfer_bench.tensors import shared_gpu_memory
from flashinfer_bench.tensors.outputs import SharedOutputs, slot_bytes
from flashinfer_bench.tensors.planned import TensorPlan

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.gpu
PLANS = [TensorPlan("a", (3, 5), "float32"), TensorPlan("b", (7,), "bfloat16")]
OTHER = """
    import sys

    import torch

    from flashinfer_bench.tensors.outputs import SharedOutputs
    from flashinfer_bench.tensors.planned import TensorPlan

    torch.cuda.init()
    plans = [TensorPlan("a", (3, 5), "float32"), TensorPlan("b", (7,), "bfloat16")]
    shared = SharedOutputs(int(sys.argv[1]), plans, 2, torch.device("cuda", 0), is_on_device=True)
    a = torch.arange(15.0, device="cuda").reshape(5, 3).t()
    b = torch.full((7,), -2.5, dtype=torch.bfloat16, device="cuda")
    shared.write([[a * 0, b * 0], [a, b]])
    torch.cuda.synchronize()
"""


@pytest.fixture
def device() -> torch.device:
    torch.cuda.init()
    found = torch.device("cuda", 0)
    if not shared_gpu_memory.can_be_shared(found):
        pytest.skip("this driver hands no memory over")
    return found


@pytest.fixture
def memory(device: torch.device) -> Iterator[int]:
    descriptor = shared_gpu_memory.create(2 * slot_bytes(PLANS), device)
    yield descriptor
    os.close(descriptor)


def test_outputs_of_another_process_arrive_bit_by_bit(memory: int, device: torch.device) -> None:
    ours = SharedOutputs(memory, PLANS, 2, device, is_on_device=True)

    program = [sys.executable, "-c", textwrap.dedent(OTHER), str(memory)]
    subprocess.run(program, pass_fds=[memory], check=True)
    a, b = ours.read(1, device)

    assert not ours.arrives_late
    assert torch.equal(a.cpu(), torch.arange(15.0).reshape(5, 3).t())
    assert a.is_contiguous()
    assert b.tolist() == [-2.5] * 7


def test_what_was_read_does_not_change_with_what_is_written_next(
    memory: int, device: torch.device
) -> None:
    shared = SharedOutputs(memory, PLANS, 2, device, is_on_device=True)
    shared.write([[torch.ones(3, 5, device=device)]])

    received, _ = shared.read(0, device)
    shared.write([[torch.zeros(3, 5, device=device)]])

    assert bool((received == 1).all())


def test_an_output_that_lies_in_the_shared_memory_is_refused(
    memory: int, device: torch.device
) -> None:
    shared = SharedOutputs(memory, PLANS, 2, device, is_on_device=True)

    with pytest.raises(ValueError, match="handed over in"):
        shared.write([[shared._slots[0][0]]])


def test_memory_is_free_again_when_nobody_holds_it(device: torch.device) -> None:
    before, _ = torch.cuda.mem_get_info(device)
    for _ in range(20):
        descriptor = shared_gpu_memory.create(1 << 30, device)
        shared = SharedOutputs(
            descriptor, [TensorPlan("y", (1 << 28,), "float32")], 1, device, is_on_device=True
        )
        os.close(descriptor)
        shared.write([[torch.ones(1 << 28, device=device)]])
        torch.cuda.synchronize()
        del shared
        gc.collect()
    torch.cuda.empty_cache()
    after, _ = torch.cuda.mem_get_info(device)

    assert before - after < 2 << 30
