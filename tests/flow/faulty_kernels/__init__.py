"""Faulty kernels by the kind of fault, and the definitions they get wrong: which cause is suspected first?

The first line of each kernel says the cause (`cause:`), its file name the definition. `written` and `unseen` were there
while the rules were made. `later` was written when they were finished, and no rule was changed for it. The group
`earlier` are kernels of `broken_kernels` that are older than the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.cli.measure.kernel_files import Hints, solution_from
from flashinfer_bench.data import Definition, Trace, TraceSet, Workload
from flashinfer_bench.judging.diagnosis import Diagnosis, diagnosis_in

FOLDER = Path(__file__).parent
GROUPS = ("earlier", "later", "unseen", "written")
_SETTINGS: dict[str, Any] = {
    "iterations": 2, "num_trials": 1, "warmup_runs": 1, "profile_baseline": False, "timeout_seconds": 20,
}  # fmt: skip
_RANDOM = {"type": "random"}


@dataclass(frozen=True, slots=True)
class Subject:
    """A definition and its workload."""

    definition: Definition
    workload: Workload


@dataclass(frozen=True, slots=True)
class FaultyKernel:
    """A kernel file, and the cause that is to be suspected of it first."""

    file: Path
    cause: str
    subject: Subject


def kernels(group: str) -> Iterator[FaultyKernel]:
    """Give the kernels of a group."""
    if group == "earlier":
        for name, cause in EARLIER.items():
            yield FaultyKernel(FOLDER.parent / "broken_kernels" / name, cause, SUBJECTS["scale"])
        return
    for file in sorted((FOLDER / group).iterdir()):
        if file.suffix in {".py", ".cpp"}:
            (cause,) = re.findall(r"^(?:#|//) cause: (\w+)$", file.read_text(), re.MULTILINE)
            yield FaultyKernel(file, cause, SUBJECTS[file.stem.partition("__")[0]])


def first_cause(diagnosis: Diagnosis | None) -> str:
    """Name what is suspected first; a dash where nothing is."""
    return diagnosis.causes[0].code if diagnosis and diagnosis.causes else "-"


def diagnosed(benchmark: Benchmark, kernel: FaultyKernel) -> Diagnosis | None:
    """Judge a kernel, and give what its trace says of its values."""
    solution = solution_from(kernel.file, kernel.subject.definition, Hints())
    (trace,) = benchmark.run_solution(solution, dump_traces=False)
    assert trace.evaluation is not None
    correctness = trace.evaluation.correctness
    return diagnosis_in(correctness.extra if correctness else None)


def benchmark() -> Benchmark:
    """Give a benchmark of all the definitions."""
    traces = TraceSet(
        definitions={each.definition.name: each.definition for each in SUBJECTS.values()},
        workloads={
            each.definition.name: [Trace(definition=each.definition.name, workload=each.workload)]
            for each in SUBJECTS.values()
        },
    )
    return Benchmark(traces, BenchmarkConfig(**_SETTINGS), device="cpu")


def _subject(
    name: str,
    axes: dict[str, int | None],
    inputs: dict[str, tuple[Any, str]],
    outputs: dict[str, tuple[Any, str]],
    reference: str,
    *,
    sizes: dict[str, int],
    values: dict[str, Any] | None = None,
    tolerance: dict[str, float] | None = None,
) -> Subject:
    kinds = {
        axis: {"type": "var"} if size is None else {"type": "const", "value": size}
        for axis, size in axes.items()
    }
    specs = [
        {key: {"shape": shape, "dtype": dtype} for key, (shape, dtype) in part.items()}
        for part in (inputs, outputs)
    ]
    definition = Definition.model_validate(
        {"name": name, "op_type": name, "axes": kinds, "inputs": specs[0], "outputs": specs[1], "reference": reference}
    )  # fmt: skip
    drawn = {key: (values or {}).get(key, _RANDOM) for key in inputs}
    workload = Workload.model_validate({"axes": sizes, "inputs": drawn, "tolerance": tolerance})
    return Subject(definition, workload)


def _drawn(**distribution: Any) -> dict[str, Any]:
    return {"type": "random", "distribution": distribution}


_TIGHT = {"rtol": 1e-3, "atol": 1e-4}

EARLIER = {
    "cpp_element_type.cpp": "wrong_stride",
    "cpp_last_tile.cpp": "dropped_last_block",
    "cpp_nan.cpp": "overflow",
    "python_last_tile.py": "dropped_last_block",
    "python_nan.py": "overflow",
    "python_parameters.py": "never_written",
    "python_prints.py": "wrong_function",
    "tilelang_values.py": "wrong_function",
    "triton_last_tile.py": "dropped_last_block",
}
"""Broken kernels whose values are wrong, and the cause of each."""

SUBJECTS = {
    "scale": _subject(
        "scale",
        {"n": None},
        {"x": (["n"], "float32"), "w": (["n"], "float32")},
        {"y": (["n"], "float32")},
        "def run(x, w):\n    return x * w\n",
        sizes={"n": 300},
    ),
    "rmsnorm": _subject(
        "rmsnorm",
        {"rows": None, "hidden": 300},
        {"x": (["rows", "hidden"], "bfloat16"), "weight": (["hidden"], "bfloat16")},
        {"y": (["rows", "hidden"], "bfloat16")},
        """
import torch

EPS = 1e-5


def run(x, weight):
    wide = x.to(torch.float32)
    scale = torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + EPS)
    return (wide * scale * weight.to(torch.float32)).to(x.dtype)
""",
        sizes={"rows": 7},
        values={"x": _drawn(type="normal", std=0.01)},
    ),
    "softmax": _subject(
        "softmax",
        {"rows": None, "vocab": 1000},
        {"logits": (["rows", "vocab"], "float32"), "temperature": (None, "float32")},
        {"probs": (["rows", "vocab"], "float32")},
        """
import torch


def run(logits, temperature):
    scaled = logits / temperature
    weights = torch.exp(scaled - scaled.max(dim=-1, keepdim=True).values)
    return weights / weights.sum(dim=-1, keepdim=True)
""",
        sizes={"rows": 6},
        values={
            "logits": _drawn(type="normal", std=60.0),
            "temperature": {"type": "scalar", "value": 0.7},
        },
        tolerance={"rtol": 1e-3, "atol": 1e-30},
    ),
    "gemm": _subject(
        "gemm",
        {"M": None, "N": 48, "K": 200},
        {"A": (["M", "K"], "float32"), "B": (["N", "K"], "float32"), "bias": (["N"], "float32")},
        {"C": (["M", "N"], "float32")},
        """
import torch


def run(A, B, bias):
    return A @ B.T + bias
""",
        sizes={"M": 40},
        tolerance=_TIGHT,
    ),
    "prefill": _subject(
        "prefill",
        {"tokens": None, "num_qo_heads": 8, "num_kv_heads": 2, "head_dim": 16},
        {
            "q": (["tokens", "num_qo_heads", "head_dim"], "float32"),
            "k": (["tokens", "num_kv_heads", "head_dim"], "float32"),
            "v": (["tokens", "num_kv_heads", "head_dim"], "float32"),
            "sm_scale": (None, "float32"),
        },
        {"out": (["tokens", "num_qo_heads", "head_dim"], "float32")},
        """
import torch


def run(q, k, v, sm_scale):
    group = q.shape[1] // k.shape[1]
    keys = k.repeat_interleave(group, dim=1)
    values = v.repeat_interleave(group, dim=1)
    scores = torch.einsum("qhd,khd->hqk", q, keys) * sm_scale
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(diagonal=1)
    scores = scores.masked_fill(hidden, float("-inf"))
    return torch.einsum("hqk,khd->qhd", torch.softmax(scores, dim=-1), values)
""",
        sizes={"tokens": 24},
        values={"sm_scale": {"type": "scalar", "value": 0.25}},
        tolerance=_TIGHT,
    ),
    "decode": _subject(
        "decode",
        {"batch": None, "length": None, "num_qo_heads": 4, "num_kv_heads": 2, "head_dim": 16},
        {
            "q": (["batch", "num_qo_heads", "head_dim"], "float32"),
            "k": (["batch", "length", "num_kv_heads", "head_dim"], "float32"),
            "v": (["batch", "length", "num_kv_heads", "head_dim"], "float32"),
            "lengths": (["batch"], "int64"),
            "sm_scale": (None, "float32"),
        },
        {"out": (["batch", "num_qo_heads", "head_dim"], "float32")},
        """
import torch


def run(q, k, v, lengths, sm_scale):
    group = q.shape[1] // k.shape[2]
    out = torch.zeros_like(q)
    for row, length in enumerate(lengths.tolist()):
        if length == 0:
            continue
        keys = k[row, :length].repeat_interleave(group, dim=1)
        values = v[row, :length].repeat_interleave(group, dim=1)
        scores = torch.einsum("hd,thd->ht", q[row], keys) * sm_scale
        out[row] = torch.einsum("ht,thd->hd", torch.softmax(scores, dim=-1), values)
    return out
""",
        sizes={"batch": 24, "length": 8},
        values={
            "lengths": _drawn(type="integers", low=0, high=8),
            "sm_scale": {"type": "scalar", "value": 0.25},
        },
        tolerance=_TIGHT,
    ),
    "rope": _subject(
        "rope",
        {"tokens": None, "num_qo_heads": 4, "num_kv_heads": 2, "head_dim": 32, "max_seq_len": None},
        {
            "q": (["tokens", "num_qo_heads", "head_dim"], "bfloat16"),
            "k": (["tokens", "num_kv_heads", "head_dim"], "bfloat16"),
            "cos_sin_cache": (["max_seq_len", "head_dim"], "float32"),
            "positions": (["tokens"], "int64"),
        },
        {
            "q_out": (["tokens", "num_qo_heads", "head_dim"], "bfloat16"),
            "k_out": (["tokens", "num_kv_heads", "head_dim"], "bfloat16"),
        },
        """
import torch


def rotate(x, cos, sin):
    first, second = x.to(torch.float32).chunk(2, dim=-1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned.to(x.dtype)


def run(q, k, cos_sin_cache, positions):
    cos, sin = cos_sin_cache[positions].unsqueeze(1).chunk(2, dim=-1)
    return rotate(q, cos, sin), rotate(k, cos, sin)
""",
        sizes={"tokens": 10, "max_seq_len": 64},
        values={"positions": _drawn(type="integers", low=0, high=64)},
    ),
    "silu": _subject(
        "silu",
        {"tokens": None, "double": 600, "half": 300},
        {"gate_up": (["tokens", "double"], "float32")},
        {"y": (["tokens", "half"], "float32")},
        """
import torch


def run(gate_up):
    gate, up = gate_up.chunk(2, dim=-1)
    return gate * torch.sigmoid(gate) * up
""",
        sizes={"tokens": 300},
        tolerance=_TIGHT,
    ),
    "quantise": _subject(
        "quantise",
        {"rows": None, "n": 128},
        {"x": (["rows", "n"], "float32")},
        {"codes": (["rows", "n"], "int8"), "scales": (["rows"], "float32")},
        """
import torch


def run(x):
    scales = x.abs().amax(dim=-1) / 127.0
    codes = torch.round(x / scales.unsqueeze(-1)).clamp(-127, 127)
    return codes.to(torch.int8), scales
""",
        sizes={"rows": 32},
        tolerance=_TIGHT,
    ),
}
"""By the name that files of kernels begin with."""
