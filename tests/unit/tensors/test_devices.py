from __future__ import annotations

import mmap
import platform

import psutil
import pytest
import torch

from flashinfer_bench.errors import DeviceError
from flashinfer_bench.tensors import machine
from flashinfer_bench.tensors.devices import Cpu, open_device


def test_the_processor_says_what_it_is() -> None:
    cpu = Cpu()

    assert cpu.torch_device == torch.device("cpu")
    assert cpu.hardware == machine.processor_name()
    assert (cpu.uuid, cpu.driver, cpu.cuda) == ("cpu", None, None)


def test_a_generator_does_not_tell_the_seed_that_inputs_follow_from() -> None:
    cpu = Cpu()

    cpu.seed_generators(17)
    first = torch.rand(3)
    told = torch.initial_seed()
    cpu.seed_generators(17)

    assert torch.equal(first, torch.rand(3))
    assert told == torch.initial_seed() != 17


def test_all_cores_share_one_lock() -> None:
    assert Cpu().lock_name == Cpu().lock_name == "cpu"


def test_available_memory_is_what_the_kernel_says() -> None:
    assert 0 < Cpu().available_bytes() <= psutil.virtual_memory().total


def test_the_high_water_mark_rises_with_use_and_falls_when_reset() -> None:
    cpu = Cpu()
    cpu.reset_peak()
    before = cpu.peak_bytes()

    with mmap.mmap(-1, 64 << 20) as fresh:  # malloc may have memory in hand that was used before
        for page in range(0, len(fresh), mmap.PAGESIZE):
            fresh[page] = 1
        after = cpu.peak_bytes()
    cpu.reset_peak()

    assert 60 << 20 <= after - before < 200 << 20
    assert cpu.peak_bytes() < after


def test_waiting_for_the_processor_takes_no_time() -> None:
    assert Cpu().synchronize() is None


def test_the_processor_is_opened_by_its_name() -> None:
    assert isinstance(open_device("cpu"), Cpu)


def test_a_device_of_another_kind_is_named() -> None:
    with pytest.raises(DeviceError, match="no support for device 'tpu:0'"):
        open_device("tpu:0")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_card_that_is_not_there_is_named() -> None:
    with pytest.raises(DeviceError, match="no cuda:0; 0 found"):
        open_device("cuda:0")


def test_the_machine_has_a_processor_with_a_name_and_cores() -> None:
    assert machine.processor_name()
    assert machine.processor_name() != platform.system()
    assert 1 <= machine.physical_cores() <= psutil.cpu_count()


def test_without_a_driver_there_are_no_cards(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no nvidia-smi here

    assert machine.gpu_names() == []
