"""The kernel that holds calls: what its source does to inputs, and what is made of it."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from flashinfer_bench.bench.timing import hold
from flashinfer_bench.bench.timing.hold import StartWord, late_settler, place_table
from flashinfer_bench.data.distributions import Boolean, Integers, Uniform
from flashinfer_bench.tensors import late_content
from flashinfer_bench.tensors.input_generation import draw
from flashinfer_bench.tensors.planned import InputPlan, TensorPlan, usual

SOURCE = Path(hold.__file__).with_suffix(".cu")
PTX = Path(hold.__file__).with_suffix(".ptx")
SEED = 0x1234_5678_9ABC_DEF1
CPU = torch.device("cpu")


def planned(*shape: int, dtype: str = "float32", distribution: Any = None) -> InputPlan:
    return InputPlan(TensorPlan("x", shape, dtype), "window", distribution=distribution)


PLANS = [
    planned(64, 67),
    planned(3000, 31, dtype="bfloat16"),
    planned(999, dtype="float32", distribution=Uniform(low=0.0, high=1.0)),
    planned(100_001, dtype="int64", distribution=Integers(low=-5, high=1 << 40)),
    planned(77, 13, dtype="int32", distribution=Integers(low=3, high=1000)),
    planned(12_345, dtype="int16", distribution=Integers(low=-1024, high=1024)),
    planned(800, dtype="int8", distribution=Integers(low=-128, high=128)),
    planned(640, dtype="bool", distribution=Boolean()),
]


def drawn(plan: InputPlan, generator: torch.Generator) -> torch.Tensor:
    distribution = usual(plan.tensor.dtype) if plan.distribution is None else plan.distribution
    dtype = getattr(torch, plan.tensor.dtype)
    return draw(distribution, plan.tensor.shape, dtype, generator)


@pytest.fixture(scope="module")
def on_host(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The kernel's source, compiled for one thread of this machine."""
    library = tmp_path_factory.mktemp("hold") / "hold.so"
    stub = Path(__file__).with_name("hold_on_a_host.h")
    command = [
        "g++",
        "-O1",
        "-shared",
        "-fPIC",
        "-include",
        stub,
        "-x",
        "c++",
        SOURCE,
        "-o",
        library,
    ]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library)).hold


def hold(kernel: Any, places: torch.Tensor, seed: int, sweep: torch.Tensor) -> None:
    words, shared = torch.tensor([1, seed]), torch.zeros(3, dtype=torch.int64)
    addresses = [each.data_ptr() for each in (words, shared, places, sweep)]
    start, told, table, swept = map(ctypes.c_uint64, addresses)
    sweeps = sweep.nbytes // 16
    least, ticket, launch = ctypes.c_uint64(5000), ctypes.c_uint64(0), ctypes.c_uint64(1)
    kernel(least, start, ticket, told, launch, table, len(places), swept, sweeps)


def test_the_kernel_settles_as_torch_does(on_host: Any) -> None:
    generator = torch.Generator().manual_seed(1)
    sets = [[drawn(plan, generator) for plan in PLANS] for _ in range(3)]
    expected = [[each.clone() for each in arguments] for arguments in sets]
    late_content.settle(PLANS, expected, SEED)
    places = place_table(PLANS, sets, CPU)
    assert places is not None
    sweep = torch.ones(64)
    hold(on_host, places, SEED, sweep)
    for arguments, right in zip(sets, expected, strict=True):
        for got, wanted in zip(arguments, right, strict=True):
            assert torch.equal(got.view(torch.uint8), wanted.view(torch.uint8))
    assert not sweep.any()


def test_without_a_seed_inputs_stay(on_host: Any) -> None:
    tensor = torch.randn(64, 67)
    before = tensor.clone()
    places = place_table(PLANS[:1], [[tensor]], CPU)
    assert places is not None
    hold(on_host, places, 0, torch.ones(4))
    assert torch.equal(tensor, before)


def test_what_may_not_change_has_no_table() -> None:
    assert place_table([planned(1)], [[torch.ones(1)]], CPU) is None


def test_without_a_card_nothing_is_held() -> None:
    assert late_settler(CPU) is None
    if not torch.cuda.is_available():
        assert late_settler(torch.device("cuda:0")) is None


def test_a_word_is_a_ticket_and_a_seed() -> None:
    word = StartWord()
    word.say((1 << 64) - 5)
    word.say(7)
    content = Path(f"/proc/self/fd/{word.descriptor}").read_bytes()
    assert [int.from_bytes(content[at : at + 8], "little") for at in (0, 8)] == [2, 7]


@pytest.mark.parametrize(
    ("architecture", "threads"),
    [("sm_75", 1024), ("sm_80", 2048), ("sm_86", 1536), ("sm_90", 2048)],
)
def test_all_blocks_of_a_full_grid_are_resident(
    architecture: str, threads: int, tmp_path: Path
) -> None:
    """They wait for each other at the end: one that found no registers would keep all others waiting."""
    triton = pytest.importorskip("triton", reason="brings an assembler")
    ptxas = Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
    command = [ptxas, f"-arch={architecture}", "-v", PTX, "-o", tmp_path / "hold.cubin"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    found = re.search(r"Used (\d+) registers", said.stderr)
    assert found is not None, said.stderr
    allocated = -(-int(found[1]) // 8) * 8  # in steps of eight
    assert allocated * threads <= 65_536


def test_the_text_is_what_the_source_compiles_to(tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc here")
    made = tmp_path / "hold.ptx"
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    if "release 13.0" not in version:
        pytest.skip("hold.ptx was written by nvcc 13.0")
    subprocess.run([nvcc, "-ptx", "-arch=compute_75", SOURCE, "-o", made], check=True)
    assert _body(made) == _body(PTX)


def _body(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8").split(".address_size 64", 1)[1]
    return [
        line for line in text.splitlines() if not line.strip().startswith("//") and line.strip()
    ]
