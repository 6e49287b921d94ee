"""Which GPUs CUDA shows is told without CUDA: from what the driver lists and what the environment leaves of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.bench.parent.pool import device_names, hardware_of
from flashinfer_bench.data import TraceSet
from flashinfer_bench.errors import UsageError
from flashinfer_bench.tensors import machine

H100, L4 = "NVIDIA H100 80GB HBM3", "NVIDIA L4"
MIXED = (
    (L4, "GPU-1111aaaa-0000-0000-0000-000000000000"),
    (H100, "GPU-2222bbbb-0000-0000-0000-000000000000"),
    (H100, "GPU-2222cccc-0000-0000-0000-000000000000"),
)
LISTED = [f"GPU {index}: {name} (UUID: {uuid})" for index, (name, uuid) in enumerate(MIXED)]
INSTANCES = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-0000-0000-0000-000000000000)
  MIG 3g.20gb     Device  0: (UUID: MIG-c7384736-0000-0000-0000-000000000000)
  MIG 1g.5gb      Device  1: (UUID: MIG-a28ad590-0000-0000-0000-000000000000)
GPU 1: NVIDIA L4 (UUID: GPU-1111aaaa-0000-0000-0000-000000000000)
"""

Machine = Callable[..., None]


@pytest.fixture
def machine_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """Put an `nvidia-smi` on the path that lists these GPUs, and set what CUDA reads."""

    def make(listed: str, mask: str | None = None, order: str | None = "PCI_BUS_ID") -> None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f'#!/bin/sh\n[ "$*" = "-L" ] && cat <<"END"\n{listed}\nEND\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        monkeypatch.setattr(machine, "_NVIDIA_DRIVER", program)
        for name, value in (("CUDA_VISIBLE_DEVICES", mask), ("CUDA_DEVICE_ORDER", order)):
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, value)

    return make


def of_mixed(*indices: int) -> list[str]:
    return [MIXED[index][0] for index in indices]


@pytest.mark.parametrize(
    ("mask", "visible"),
    [
        (None, (0, 1, 2)),
        ("0", (0,)),
        ("1,0", (1, 0)),
        (" 2 , 0 ", (2, 0)),
        ("+1", (1,)),
        ("1st,2nd", (1, 2)),
        ("", ()),
        (" ", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("none", ()),
        ("0,-1,1", (0,)),
        ("0,7,1", (0,)),
        ("0,,1", (0,)),
        ("0,x,1", (0,)),
        ("0,²", (0,)),
        ("0,0", ()),
        ("1,0,1", ()),
        ("0,7,0", ()),
        ("0,-1,0", (0,)),
        ("GPU-1,GPU-f,GPU-1", ()),
        ("GPU-1, GPU-2222b", (0,)),
        ("GPU-1111aaaa-0000-0000-0000-000000000000", (0,)),
        ("GPU-2222c,GPU-1", (2, 0)),
        ("GPU-2222", ()),
        ("GPU-1,GPU-2222", (0,)),
        ("GPU-1,GPU-f,GPU-2222b", (0,)),
        ("GPU-1,GPU-1111", ()),
        ("GPU-1,0", (0,)),
        ("0,GPU-2222b", (0,)),
        ("GPU-", ()),
        ("gpu-1111aaaa", ()),
        ("MIG-c7384736", ()),
    ],
)
def test_the_mask_is_read_as_cuda_reads_it(
    machine_with: Machine, mask: str | None, visible: tuple[int, ...]
) -> None:
    machine_with("\n".join(LISTED), mask)

    assert machine.gpu_names() == of_mixed(*visible)
    assert device_names("auto") == (tuple(f"cuda:{n}" for n in range(len(visible))) or ("cpu",))
    for index, name in enumerate(of_mixed(*visible)):
        assert hardware_of(f"cuda:{index}") == name


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        ("MIG-c7384736-0000-0000-0000-000000000000", ["NVIDIA A100-SXM4-40GB MIG 3g.20gb"]),
        ("MIG-a28", ["NVIDIA A100-SXM4-40GB MIG 1g.5gb"]),
        ("MIG-a28,MIG-c73", ["NVIDIA A100-SXM4-40GB MIG 1g.5gb"]),
        ("MIG-a28,MIG-a28", []),
        ("MIG-ffff", []),
        ("MIG-", []),
        ("1", ["NVIDIA L4"]),
        ("GPU-1111aaaa", ["NVIDIA L4"]),
    ],
)
def test_instances_are_named_by_uuid_and_cuda_shows_one(
    machine_with: Machine, mask: str, names: list[str]
) -> None:
    machine_with(INSTANCES, mask)

    assert machine.gpu_names() == names


@pytest.mark.parametrize("order", [None, "FASTEST_FIRST"])
@pytest.mark.parametrize("mask", [None, "0", "1,2"])
def test_a_card_whose_name_depends_on_which_is_fastest_is_not_guessed(
    machine_with: Machine, mask: str | None, order: str | None
) -> None:
    machine_with("\n".join(LISTED), mask, order)

    assert len(device_names("auto")) == (3 if mask is None else len(mask.split(",")))
    with pytest.raises(UsageError, match="CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        hardware_of("cuda:0")


def test_uuids_and_cards_of_one_name_need_no_order(machine_with: Machine) -> None:
    machine_with("\n".join(LISTED), "GPU-2222b,GPU-1", None)
    assert hardware_of("cuda:1") == L4

    machine_with("\n".join(LISTED[1:]), "1", None)
    assert hardware_of("cuda:0") == H100


def test_a_card_that_is_hidden_is_missing_and_the_message_says_by_what(
    machine_with: Machine,
) -> None:
    machine_with("\n".join(LISTED), "0")

    with pytest.raises(UsageError, match="1 found, CUDA_VISIBLE_DEVICES is '0'"):
        hardware_of("cuda:1")


def test_a_driver_that_does_not_answer_has_no_cards(machine_with: Machine, tmp_path: Path) -> None:
    machine_with("")
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: X (UUID: GPU-1)'\nexit 9\n")

    assert machine.gpu_names() == []


def test_a_second_card_that_is_hidden_is_refused_before_anything_starts(
    machine_with: Machine,
) -> None:
    machine_with("\n".join(LISTED), "1")
    benchmark = Benchmark(TraceSet(), device="cuda:0,cuda:1")

    assert device_names("auto") == ("cuda:0",)
    assert hardware_of("cuda:0") == MIXED[1][0]
    with pytest.raises(UsageError, match=r"'cuda:1' .1 found, .* is '1' and .* counted from 0"):
        benchmark.plan()
