from __future__ import annotations

import pytest

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
