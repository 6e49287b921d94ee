"""The demo does what its README says: the model really gets faster, and computes the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flashinfer_bench.data import Profile, TraceSet

EXAMPLE = Path(__file__).parents[2] / "examples" / "03_close_the_loop"
ROW = re.compile(r"^  (measured|predicted), (.+?) {2,}([\d.]+) ms(?: {2}([\d.]+)x)?", re.MULTILINE)
SMALL = ("--layers", "3", "--prompt", "64", "--tokens", "16", "--rounds", "15")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def said(out: Path) -> str:
    pytest.importorskip("torch", reason="the model runs in torch")
    command = [sys.executable, str(EXAMPLE / "close_the_loop.py"), *SMALL, "--out", str(out)]
    done = subprocess.run(
        [*command, "--run", "--num-trials 1 --iterations 20"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_kernel_was_traced_measured_and_weighed(said: str, out: Path) -> None:
    dataset = TraceSet.from_path(out / "dataset")
    profile = Profile.load(out / "dataset" / "profiles" / "PyTorch" / "tiny-decoder.json")
    counts = {
        (use.kernel.definition, *use.kernel.axes.values()): use.count  # type: ignore[union-attr]
        for use in profile.kernels
    }

    # three layers, one prompt of 64 tokens, then 15 tokens one by one
    assert counts["rope_h8_kv2_d16", 64] == counts["silu_and_mul_i352", 64] == 3
    assert counts["rope_h8_kv2_d16", 1] == counts["gqa_decode_h8_kv2_d16",] == 3 * 15
    assert counts["rmsnorm_h128", 1] == 15
    assert counts["fused_add_rmsnorm_h128", 1] == 1 + 15 * 6
    assert set(dataset.traces) == set(dataset.definitions)
    assert "not measured" not in said


def test_the_model_gets_faster_as_predicted_and_computes_the_same(said: str) -> None:
    rows = {f"{kind} {what}": float(ratio) for kind, what, _, ratio in ROW.findall(said) if ratio}
    difference = re.search(r"largest difference of scores: ([\d.e+-]+)", said)

    assert set(rows) == {
        "predicted kernels alone",
        "predicted with what calls cost",
        "measured applied",
    }
    assert rows["measured applied"] >= 1.2
    assert rows["predicted kernels alone"] >= rows["predicted with what calls cost"] > 1
    assert difference is not None
    assert float(difference[1]) < 1e-4


def test_the_readmes_command_is_the_one_that_runs() -> None:
    readme = (EXAMPLE / "README.md").read_text()

    assert "$ python examples/03_close_the_loop/close_the_loop.py\n" in readme
    for option in ("--layers", "--prompt", "--tokens"):
        assert option in (EXAMPLE / "close_the_loop.py").read_text()


def test_the_dataset_of_the_demo_is_sound() -> None:
    command = [sys.executable, "-m", "flashinfer_bench", "validate", "--local"]
    done = subprocess.run(
        [*command, str(EXAMPLE / "dataset")], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
