"""Where there is no driver nothing is shared, and nothing fails; tests/gpu has what a card does."""

from __future__ import annotations

import ctypes

import pytest

torch = pytest.importorskip("torch", reason="tensors are torch's")

from flashinfer_bench.errors import DeviceError  # noqa: E402  # needs torch
from flashinfer_bench.tensors import cuda_driver, shared_gpu_memory  # noqa: E402
from flashinfer_bench.tensors.shared_gpu_memory import _Access, _Properties  # noqa: E402


@pytest.fixture
def without_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "library", lambda: None)


@pytest.mark.usefixtures("without_driver")
@pytest.mark.parametrize("name", ["cpu", "cuda:0"])
def test_nothing_can_be_shared_without_a_driver(name: str) -> None:
    assert not shared_gpu_memory.can_be_shared(torch.device(name))


@pytest.mark.usefixtures("without_driver")
def test_memory_that_cannot_be_made_is_the_machines_fault() -> None:
    with pytest.raises(DeviceError, match="no NVIDIA driver"):
        shared_gpu_memory.create(1, torch.device("cuda:0"))


def test_a_driver_that_refuses_shares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def __getattr__(self, _: str) -> object:
            return lambda *_: 801  # CUDA_ERROR_NOT_SUPPORTED

    monkeypatch.setattr(cuda_driver, "library", Refusing)
    shared_gpu_memory._can_share.cache_clear()

    assert not shared_gpu_memory.can_be_shared(torch.device("cuda:0"))
    shared_gpu_memory._can_share.cache_clear()


def test_the_structures_are_as_large_as_the_headers_say() -> None:
    assert ctypes.sizeof(_Properties) == 32  # CUmemAllocationProp of cuda.h
    assert ctypes.sizeof(_Access) == 12  # CUmemAccessDesc
