"""The example of a served model does what its README says: both phases, one dataset, two kernels put back."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from flashinfer_bench.data import Profile, TraceSet

EXAMPLE = Path(__file__).parents[2] / "examples" / "04_served_model"
KERNELS = ("rmsnorm_h128_f32", "silu_and_mul_split_i352_f32")
QUICK = (
    "--rounds=3",
    "--decompose=--no-verify",
    "--run=--num-trials 1 --iterations 10 --op-types rmsnorm silu_and_mul --authors hand unchanged",
)
WHOLE = ("--rounds=3", "--run=--num-trials 1 --iterations 10")


def run(out: Path, *options: str) -> str:
    pytest.importorskip("transformers", reason="its model is taken apart")
    command = [sys.executable, str(EXAMPLE / "served_model.py"), "--out", str(out), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_kernels_are_measured_for_both_phases_and_answer_in_both(tmp_path: Path) -> None:
    said = run(tmp_path, *QUICK)

    dataset = TraceSet.from_path(tmp_path / "dataset")
    for phase, rows in (("prefill", 512), ("decode", 32)):
        profile = Profile.load(tmp_path / f"dataset/profiles/PyTorch/llama_{phase}.json")
        uses = {use.kernel.definition: use for use in profile.kernels}  # type: ignore[union-attr]
        assert [(*uses[name].kernel.axes.values(), uses[name].count) for name in KERNELS] == [
            (rows, 9),
            (rows, 4),
        ]
        assert f"\n{phase}: batch of 32, 16 tokens of prompt, one thread\n" in said
    assert {name: len(dataset.traces[name]) for name in KERNELS} == dict.fromkeys(KERNELS, 4)
    assert said.count("13 calls were answered by kernels, 13 by the model's own functions") == 2
    assert len(re.findall(r"^  apart by +[\d.]+ points$", said, re.MULTILINE)) == 2


@pytest.mark.full
def test_every_kernel_of_both_phases_is_verified_and_measured(tmp_path: Path) -> None:
    said = run(tmp_path, *WHOLE)

    assert said.count("passed: bit-equal at every level") == 2
    # cosines and sines follow from places alone: without an input there is nothing to benchmark
    left_out = re.findall(r"^  1 kernel not measured, in no sum: (\w+) × 1$", said, re.MULTILINE)
    assert [each.startswith("llama_rotary_embedding") for each in left_out] == [True, True]
    assert said.count(" not measured") == 2


def test_the_readmes_command_and_options_are_the_scripts() -> None:
    readme = (EXAMPLE / "README.md").read_text()
    script = (EXAMPLE / "served_model.py").read_text()

    assert "$ python examples/04_served_model/served_model.py\n" in readme
    for option in re.findall(r"`(--(?:check|rounds|run|decompose))`", readme):
        assert f'"{option}"' in script
