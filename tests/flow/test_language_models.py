"""Kernels written by hand, one file each, are right on the pieces of language models; with one fault they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.data import TraceSet
from tests.commands import call
from tests.marks import mostly_full

from .kernels import quick, solution
from .language_models.models import NAMES, write

pytest.importorskip("transformers", reason="its models are taken apart")

BY_HAND = Path(__file__).parent / "language_models" / "by_hand"
FAULTS = {
    "rope": ("+ first * sin", "- first * sin"),
    "causal_attention": ('.masked_fill(later, float("-inf"))', ""),
    "gated_mlp": (" * up", ""),
    "rms_norm": (" * weight", ""),
    "add_norm": ("hidden_states + residual", "hidden_states"),
    "silu_and_mul": (" * up", ""),
    "gate_up": (" * up", ""),
    "grouped_gemm": ("ends.tolist()", "ends.tolist()[:-1]"),
}
PIECES = {
    "apply_rotary_pos_emb": "rope",
    "scaled_dot_product_attention": "causal_attention",
    "llama_mlp": "gated_mlp",
    "mistral_mlp": "gated_mlp",
    "qwen3_mlp": "gated_mlp",
    "rmsnorm_h": "rms_norm",
    "fused_add_rmsnorm_h": "add_norm",
    "silu_and_mul_split_i": "silu_and_mul",
    "silu_and_mul_i": "gate_up",
    "grouped_mm": "grouped_gemm",
}
"""What the first words of a definition's name say of the kernel that computes it."""
LIGHT = {"rope", "causal_attention"}
FUSED = {"add_norm", "silu_and_mul"}
EXPECTED = {
    "Llama": {*LIGHT, *FUSED, "gated_mlp", "rms_norm"},
    "Mistral": {*LIGHT, *FUSED, "gated_mlp", "rms_norm"},
    "Qwen3": {*LIGHT, *FUSED, "gated_mlp", "rms_norm"},
    "Gemma3": LIGHT,  # its norm adds one to the weight, and its gate is a GELU
    "Mixtral": {*LIGHT, "add_norm", "gate_up", "rms_norm", "grouped_gemm"},
}
BUNDLED = Path(__file__).parents[2] / "examples" / "dataset"


def with_kernels(folder: Path) -> TraceSet:
    """The dataset of a decomposition, with the kernels by hand instead of its baselines: right ones and wrong ones."""
    found = TraceSet.from_path(folder)
    found.solutions.clear()
    for definition in found.definitions:
        kernel = next((PIECES[each] for each in PIECES if definition.startswith(each)), None)
        if kernel is None:
            continue
        right = (BY_HAND / f"{kernel}.py").read_text()
        assert FAULTS[kernel][0] in right
        found.solutions[definition] = [
            solution(right, name=f"{kernel}.right.{definition}", definition=definition),
            solution(
                right.replace(*FAULTS[kernel]),
                name=f"{kernel}.wrong.{definition}",
                definition=definition,
            ),
        ]
    return found


@pytest.mark.parametrize("name", mostly_full(NAMES, "Llama", "Mixtral"))
def test_kernels_by_hand_pass_and_with_a_fault_do_not(name: str, tmp_path: Path) -> None:
    file = write(name, tmp_path)
    where = ("--output", tmp_path / "out", "--emit", "fusions", "--no-verify")
    done = call("decompose", file, *where)
    assert done.returncode == 0, done.stderr

    store = with_kernels(tmp_path / "out" / file.stem / "dataset")
    with Benchmark(store, quick(iterations=2), device="cpu") as running:
        traces = [step.trace for step in running.run(running.plan(), dump_traces=False)]

    statuses: dict[str, set[str]] = {}
    for trace in traces:
        assert trace is not None
        assert trace.evaluation is not None
        kind = ".".join(str(trace.solution).split(".")[:2])
        statuses.setdefault(kind, set()).add(str(trace.evaluation.status))
    assert statuses == {
        f"{kernel}.{how}": {"PASSED" if how == "right" else "INCORRECT_NUMERICAL"}
        for kernel in EXPECTED[name]
        for how in ("right", "wrong")
    }


def test_bundled_solutions_answer_for_the_pieces_of_a_llama_of_their_width(tmp_path: Path) -> None:
    file = write("Llama", tmp_path, hidden_size=4096, rms_norm_eps=1e-5)
    where = ("--output", tmp_path / "out", "--emit", "fusions", "--no-verify")
    done = call("decompose", file, *where, "--dtype", "bfloat16")
    assert done.returncode == 0, done.stderr
    found = TraceSet.from_path(tmp_path / "out" / file.stem / "dataset")
    wanted = ("rmsnorm_h4096", "fused_add_rmsnorm_h4096")  # they round once, the model three times
    bundled = TraceSet.from_path(BUNDLED)
    found.solutions.clear()
    for name in wanted:
        assert list(found.definitions[name].inputs) == list(bundled.definitions[name].inputs)
        found.solutions[name] = [
            each for each in bundled.solutions[name] if each.author == "baseline"
        ]

    with Benchmark(found, quick(iterations=2), device="cpu") as running:
        traces = [step.trace for step in running.run(running.plan(), dump_traces=False)]

    statuses = {each.definition: str(each.evaluation.status) for each in traces if each.evaluation}
    assert statuses == dict.fromkeys(wanted, "PASSED")
