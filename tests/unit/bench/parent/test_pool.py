from __future__ import annotations

import queue
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from flashinfer_bench.bench.parent import pool
from flashinfer_bench.bench.parent.pool import device_names, hardware_of
from flashinfer_bench.errors import UsageError
from flashinfer_bench.tensors import machine


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("cpu", ("cpu",)),
        ("cuda", ("cuda:0",)),
        ("cuda:1", ("cuda:1",)),
        ("cuda:0,cuda:3", ("cuda:0", "cuda:3")),
        (" cuda:0 , cuda:1 ,", ("cuda:0", "cuda:1")),
    ],
)
def test_devices_are_named_in_the_order_given(wanted: str, names: tuple[str, ...]) -> None:
    assert device_names(wanted) == names


@pytest.mark.parametrize(
    "wanted", ["gpu", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:²", "tpu:0"]
)
def test_a_device_that_cannot_be_is_named_with_those_that_can(wanted: str) -> None:
    with pytest.raises(UsageError, match="'auto', 'cpu', 'cuda:0'") as caught:
        device_names(wanted)

    assert repr(wanted) in str(caught.value)


@pytest.mark.parametrize("wanted", ["", ",", "cpu,cpu", "cuda:0,cuda:0", "cuda,cuda:0"])
def test_no_device_or_one_twice_is_a_mistake(wanted: str) -> None:
    with pytest.raises(UsageError, match="different devices"):
        device_names(wanted)


def test_auto_takes_every_card(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = machine.VisibleGpus(("NVIDIA H100", "NVIDIA H100"))
    monkeypatch.setattr(machine, "visible_gpus", lambda: gpus)

    assert device_names("auto") == ("cuda:0", "cuda:1")


def test_auto_takes_the_processor_where_there_is_no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "visible_gpus", machine.VisibleGpus)

    assert device_names("auto") == ("cpu",)


def test_hardware_is_named_as_the_vendor_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = machine.VisibleGpus(("NVIDIA H100", "NVIDIA L4"))
    monkeypatch.setattr(machine, "visible_gpus", lambda: gpus)

    assert hardware_of("cuda:1") == "NVIDIA L4"
    assert hardware_of("cpu") == machine.processor_name()


@pytest.mark.parametrize(("names", "found"), [([], "none found"), (["NVIDIA L4"], "1 found")])
def test_a_card_that_is_not_there_is_a_mistake_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, names: list[str], found: str
) -> None:
    monkeypatch.setattr(machine, "visible_gpus", lambda: machine.VisibleGpus(tuple(names)))

    with pytest.raises(UsageError, match=f"'cuda:1' .{found}.; use --device cpu"):
        hardware_of("cuda:1")


def test_a_device_is_stopped_by_another_thread_while_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work: Any = SimpleNamespace(await_batch=lambda *_: None)
    made: Any = pool._DeviceOwner("cpu", None, SimpleNamespace())
    is_made, failures = threading.Event(), list[BaseException]()
    start = threading.Thread.start

    def slow_start(thread: threading.Thread) -> None:
        if thread.name == "bench-cpu":
            is_made.set()
            time.sleep(0.2)
        start(thread)

    def stop() -> None:
        is_made.wait(10)
        try:
            made.stop()
        except BaseException as error:  # noqa: BLE001  # shown below
            failures.append(error)

    stopping = threading.Thread(target=stop)
    stopping.start()
    monkeypatch.setattr(threading.Thread, "start", slow_start)
    made.begin(work, queue.SimpleQueue())
    stopping.join(20)

    assert not failures
    assert not stopping.is_alive()
