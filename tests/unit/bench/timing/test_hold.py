"""The kernel that holds calls: what its source does to inputs, and what is made of it."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from flashinfer_bench.bench.timing import hold
from flashinfer_bench.bench.timing.hold import StartWord, late_rewriter, place_table
from flashinfer_bench.data.distributions import (
    Boolean,
    Integers,
    Permutation,
    Probabilities,
    Uniform,
)
from flashinfer_bench.tensors import late_inputs
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
    planned(999, distribution=Uniform(low=-1.0, high=1.0)),
    planned(64, 24, distribution=Probabilities()),
    planned(40, 8, dtype="int64", distribution=Permutation()),
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


class HeldBlocks:
    """The kernel's source on this machine, a thread for each block."""

    def __init__(self, folder: Path) -> None:
        library, stub = folder / "hold.so", Path(__file__).with_name("hold_on_a_host.cpp")
        define = f'-DSOURCE="{SOURCE}"'
        command = ["g++", "-O1", "-shared", "-fPIC", "-pthread", define, stub, "-o", library]
        subprocess.run(command, check=True)
        self._run = ctypes.CDLL(str(library)).run_blocks
        self._shared = {blocks: torch.zeros(4, dtype=torch.int64) for blocks in (1, 3)}
        self._launches = dict.fromkeys(self._shared, 0)

    def launch(
        self,
        word: torch.Tensor,
        places: torch.Tensor | None = None,
        sweep: torch.Tensor | None = None,
        *,
        blocks: int = 3,
        least_ns: int = 0,
        last_ticket: int = 0,
    ) -> None:
        """Return when all blocks have ended; `word`: ticket, seed and their check."""
        self._launches[blocks] += 1
        shared, launch = self._shared[blocks].data_ptr(), self._launches[blocks]
        numbers = (least_ns, word.data_ptr(), last_ticket, shared, launch)
        table = 0 if places is None else places.data_ptr()
        swept = 0 if sweep is None else sweep.data_ptr()
        count, sweeps = 0 if places is None else len(places), 0 if sweep is None else sweep.nbytes
        as_c = [ctypes.c_uint64(each) for each in (*numbers, table)]
        self._run(blocks, *as_c, count, ctypes.c_uint64(swept), sweeps // 16)


@pytest.fixture(scope="module")
def on_host(tmp_path_factory: pytest.TempPathFactory) -> HeldBlocks:
    return HeldBlocks(tmp_path_factory.mktemp("hold"))


def said(ticket: int, seed: int) -> torch.Tensor:
    return torch.tensor([ticket, seed, ticket ^ seed])


@pytest.mark.parametrize("blocks", [1, 3])
def test_the_kernel_writes_what_torch_writes(on_host: HeldBlocks, blocks: int) -> None:
    generator = torch.Generator().manual_seed(1)
    sets = [[drawn(plan, generator) for plan in PLANS] for _ in range(3)]
    expected = [[each.clone() for each in arguments] for arguments in sets]
    late_inputs.rewrite(PLANS, expected, SEED)
    places, sweep = place_table(PLANS, sets, CPU), torch.ones(64)
    on_host.launch(said(1, SEED), places, sweep, blocks=blocks)
    for arguments, right in zip(sets, expected, strict=True):
        for got, wanted in zip(arguments, right, strict=True):
            assert torch.equal(got.view(torch.uint8), wanted.view(torch.uint8))
    assert not sweep.any()


def test_a_tensor_that_takes_more_than_a_row_of_the_table(
    on_host: HeldBlocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_inputs, "_MOST_GROUPS", 40_000)
    plans = [planned(1 << 17), planned(300_001, distribution=Uniform()), planned(64)]
    sets = [[drawn(plan, torch.Generator().manual_seed(2)) for plan in plans] for _ in range(2)]
    expected = [[each.clone() for each in arguments] for arguments in sets]
    late_inputs.rewrite(plans, expected, SEED)
    places = place_table(plans, sets, CPU)
    assert places is not None
    assert len(places) == 2 * (2 + 3 + 1)
    on_host.launch(said(1, SEED), places)
    for arguments, right in zip(sets, expected, strict=True):
        assert all(map(torch.equal, arguments, right))


def test_without_a_seed_inputs_stay(on_host: HeldBlocks) -> None:
    tensor = torch.randn(64, 67)
    before = tensor.clone()
    on_host.launch(said(1, 0), place_table(PLANS[:1], [[tensor]], CPU))
    assert torch.equal(tensor, before)


def test_it_holds_until_ticket_and_seed_belong_together(on_host: HeldBlocks) -> None:
    tensor = torch.randn(64, 67)
    right = tensor.clone()
    late_inputs.rewrite(PLANS[:1], [[right]], SEED)
    word, places = said(7, 3), place_table(PLANS[:1], [[tensor]], CPU)
    held = threading.Thread(target=on_host.launch, args=(word, places), kwargs={"last_ticket": 7})
    held.start()
    word[0] = 8
    word[1] = SEED
    time.sleep(0.1)
    assert held.is_alive()
    word[2] = 8 ^ SEED
    held.join(10)
    assert not held.is_alive()
    assert torch.equal(tensor, right)


def test_it_holds_for_a_least_time_whatever_was_said(on_host: HeldBlocks) -> None:
    began = time.perf_counter()
    on_host.launch(said(1, SEED), least_ns=50_000_000)
    assert time.perf_counter() - began >= 0.05


def test_what_may_not_change_has_no_table() -> None:
    assert place_table([planned(1)], [[torch.ones(1)]], CPU) is None


def test_without_a_card_nothing_is_held() -> None:
    assert late_rewriter(CPU) is None
    if not torch.cuda.is_available():
        assert late_rewriter(torch.device("cuda:0")) is None


def test_a_word_is_a_ticket_a_seed_and_their_check() -> None:
    word = StartWord()
    word.say((1 << 64) - 5)
    word.say(7)
    content = Path(f"/proc/self/fd/{word.descriptor}").read_bytes()
    assert [int.from_bytes(content[at : at + 8], "little") for at in (0, 8, 16)] == [2, 7, 2 ^ 7]


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
