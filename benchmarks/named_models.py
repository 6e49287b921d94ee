"""Named models, taken apart and verified: few layers, the widths of the published ones where memory allows.

python benchmarks/named_models.py [--only llama mixtral] [--small] [--memory GIB] [--out DIR]

Each is made from a configuration with random weights, taken apart in a process of its own and verified: every file's
test is executed, wrong kernels are tried on every workload. A model fails where a finding is an error; workloads on
which a wrong kernel passes, and what is too large to be tried, are named. Exits with 1 where a model fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashinfer_bench.decompose.process import (
    GIB,
    DecomposeRequest,
    WorkDone,
    WorkLimits,
    WorkTask,
    run_each,
)
from flashinfer_bench.decompose.run_as import PHASES, RunAs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flashinfer_bench.decompose.run_as import Phase

MEMORY_BYTES = 9 * GIB
TOKENS = "torch.randint(0, 1000, (2, 32))"
IMAGES = "torch.rand(1, 3, 224, 224)"


@dataclass(frozen=True)
class NamedModel:
    """A class of transformers, its configuration where that is not the default, and what it is called with."""

    config: str
    cls: str
    sizes: Mapping[str, Any]
    inputs: Mapping[str, str]
    gives: str = "logits"
    phases: tuple[Phase, ...] = ()
    about: str = ""
    """What is smaller than in the published model."""
    small: Mapping[str, Any] = field(default_factory=dict)
    """Sizes for a quick run."""
    small_inputs: Mapping[str, str] = field(default_factory=dict)


_LLM = {"vocab_size": 1000, "num_hidden_layers": 1, "max_position_embeddings": 4096}
_WIDE = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32}
_NARROW = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}
_TEXT = {"input_ids": TOKENS}
_NOTHING_KEPT = "1 layer, 1,000 words"

MODELS = {
    "llama": NamedModel(
        "LlamaConfig",
        "LlamaForCausalLM",
        {**_LLM, **_WIDE, "num_key_value_heads": 8},
        _TEXT,
        phases=PHASES,
        about=_NOTHING_KEPT,
        small=_NARROW,
    ),
    "mistral": NamedModel(
        "MistralConfig",
        "MistralForCausalLM",
        {**_LLM, **_WIDE, "num_key_value_heads": 8, "sliding_window": None},
        _TEXT,
        about=_NOTHING_KEPT,
        small=_NARROW,
    ),
    "qwen3": NamedModel(
        "Qwen3Config",
        "Qwen3ForCausalLM",
        {
            **_LLM,
            **_WIDE,
            "intermediate_size": 12288,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
        _TEXT,
        about=_NOTHING_KEPT,
        small=_NARROW,
    ),
    "gemma3": NamedModel(
        "Gemma3TextConfig",
        "Gemma3ForCausalLM",
        {
            **_LLM,
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "num_hidden_layers": 2,
            "layer_types": ["sliding_attention", "full_attention"],
            "sliding_window": 16,
        },
        _TEXT,
        about="2 layers, a window of 16, 1,000 words",
        small={**_NARROW, "query_pre_attn_scalar": 16},
    ),
    "mixtral": NamedModel(
        "MixtralConfig",
        "MixtralForCausalLM",
        {
            **_LLM,
            **_WIDE,
            "intermediate_size": 3584,
            "num_key_value_heads": 8,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
        },
        _TEXT,
        phases=PHASES,
        about="1 layer, 4 experts of 8, 3,584 wide of 14,336, 1,000 words",
        small=_NARROW,
    ),
    "deepseek_v3": NamedModel(
        "DeepseekV3Config",
        "DeepseekV3ForCausalLM",
        {
            **_LLM,
            "hidden_size": 7168,
            "intermediate_size": 2304,
            "moe_intermediate_size": 256,
            "num_hidden_layers": 2,
            "first_k_dense_replace": 1,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "n_routed_experts": 16,
            "n_group": 8,
            "topk_group": 4,
            "num_experts_per_tok": 8,
        },
        _TEXT,
        about="2 layers, a quarter of the heads, an eighth of the inner widths, 16 experts of 256, 1,000 words",
        small={
            "hidden_size": 64,
            "intermediate_size": 96,
            "moe_intermediate_size": 32,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "q_lora_rank": 32,
            "kv_lora_rank": 16,
            "qk_nope_head_dim": 16,
            "qk_rope_head_dim": 8,
            "v_head_dim": 16,
        },
    ),
    "gpt2": NamedModel(
        "GPT2Config",
        "GPT2LMHeadModel",
        {"n_layer": 2, "vocab_size": 1000},
        _TEXT,
        about="2 layers, 1,000 words",
        small={"n_embd": 64, "n_head": 4},
    ),
    "bert": NamedModel(
        "BertConfig",
        "BertModel",
        {"num_hidden_layers": 2, "vocab_size": 1000},
        {"input_ids": TOKENS, "attention_mask": "(torch.arange(32) < 24).expand(2, 32).long()"},
        "last_hidden_state",
        about="2 layers, 1,000 words",
        small={"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4},
    ),
    "t5": NamedModel(
        "T5Config",
        "T5ForConditionalGeneration",
        {
            "d_model": 768,
            "d_ff": 3072,
            "num_heads": 12,
            "num_layers": 2,
            "num_decoder_layers": 2,
            "vocab_size": 1000,
        },
        {"input_ids": TOKENS, "decoder_input_ids": "torch.randint(0, 1000, (2, 16))"},
        about="2 + 2 layers, 1,000 words",
        small={"d_model": 64, "d_kv": 16, "d_ff": 96, "num_heads": 4},
    ),
    "whisper": NamedModel(
        "WhisperConfig",
        "WhisperForConditionalGeneration",
        {
            "d_model": 768,
            "encoder_attention_heads": 12,
            "decoder_attention_heads": 12,
            "encoder_ffn_dim": 3072,
            "decoder_ffn_dim": 3072,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "vocab_size": 1000,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
            "max_source_positions": 300,
        },
        {
            "input_features": "torch.randn(1, 80, 600)",
            "decoder_input_ids": "torch.randint(0, 1000, (1, 16))",
        },
        about="2 + 2 layers, 6 s of sound of 30, 1,000 words",
        small={
            "d_model": 64,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 96,
            "decoder_ffn_dim": 96,
        },
    ),
    "vit": NamedModel(
        "ViTConfig",
        "ViTForImageClassification",
        {"num_hidden_layers": 2},
        {"pixel_values": IMAGES},
        about="2 layers",
        small={
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_attention_heads": 4,
            "image_size": 64,
        },
        small_inputs={"pixel_values": "torch.rand(2, 3, 64, 64)"},
    ),
    "swin": NamedModel(
        "SwinConfig",
        "SwinForImageClassification",
        {"depths": [2, 2, 2, 2]},
        {"pixel_values": IMAGES},
        about="2 blocks a stage, of 2, 2, 6, 2",
        small={"embed_dim": 16, "num_heads": [1, 2, 4, 8], "image_size": 128, "window_size": 4},
        small_inputs={"pixel_values": "torch.rand(1, 3, 128, 128)"},
    ),
    "resnet50": NamedModel(
        "ResNetConfig",
        "ResNetForImageClassification",
        {},
        {"pixel_values": IMAGES},
        about="nothing",
        small={"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1], "embedding_size": 16},
        small_inputs={"pixel_values": "torch.rand(2, 3, 64, 64)"},
    ),
    "convnext": NamedModel(
        "ConvNextConfig",
        "ConvNextForImageClassification",
        {"depths": [2, 2, 2, 2]},
        {"pixel_values": IMAGES},
        about="2 blocks a stage, of 3, 3, 9, 3",
        small={"hidden_sizes": [16, 32, 48, 64]},
        small_inputs={"pixel_values": "torch.rand(2, 3, 64, 64)"},
    ),
    "mamba2": NamedModel(
        "Mamba2Config",
        "Mamba2ForCausalLM",
        {
            "hidden_size": 768,
            "num_heads": 24,
            "head_dim": 64,
            "n_groups": 1,
            "num_hidden_layers": 2,
            "vocab_size": 1000,
            "chunk_size": 32,
        },
        {"input_ids": "torch.randint(0, 1000, (2, 64))"},
        about="2 layers, chunks of 32, 1,000 words",
        small={"hidden_size": 64, "num_heads": 8, "head_dim": 16, "state_size": 16},
    ),
    "rwkv": NamedModel(
        "RwkvConfig",
        "RwkvForCausalLM",
        {"hidden_size": 768, "num_hidden_layers": 2, "vocab_size": 1000},
        {"input_ids": "torch.randint(0, 1000, (2, 16))"},
        about="2 layers, 16 tokens, 1,000 words",
        small={"hidden_size": 64, "attention_hidden_size": 64},
    ),
}

_FILE = """
import torch
from torch import nn
from transformers import {config}, {cls}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = {cls}({config}(**{sizes!r})).eval()

    def forward(self, {names}):
        return self.model({given}, return_dict=True).{gives}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def write(name: str, folder: Path, *, is_small: bool = False) -> Path:
    """Write a model's file in KernelBench's format."""
    model = MODELS[name]
    inputs = {**model.inputs, **(model.small_inputs if is_small else {})}
    file = folder / f"{name}.py"
    file.write_text(
        _FILE.format(
            config=model.config,
            cls=model.cls,
            sizes={**model.sizes, **(model.small if is_small else {})},
            names=", ".join(inputs),
            given=", ".join(f"{each}={each}" for each in inputs),
            gives=model.gives,
            inputs=", ".join(inputs.values()),
        )
    )
    return file


def taken_apart(
    names: Sequence[str],
    folder: Path,
    *,
    is_small: bool = False,
    is_verified: bool = True,
    seconds: float = 900.0,
    memory_bytes: int = MEMORY_BYTES,
) -> Iterator[tuple[str, float, dict[str, Any] | str]]:
    """Take models apart and verify them; gives each phase's name, its seconds, and its report or why there is none."""
    limits = WorkLimits(seconds=seconds, memory_bytes=memory_bytes)
    for name in names:
        file = write(name, folder, is_small=is_small)
        for phase in (None, *MODELS[name].phases):
            title = "_".join(filter(None, (name, phase)))
            request = DecomposeRequest(
                file=file,
                directory=folder / "decomposed" / title,
                is_verified=is_verified,
                memory_limit_bytes=memory_bytes,
                run_as=RunAs(phase=phase),
            )
            began_s = time.monotonic()
            task = WorkTask(
                "flashinfer_bench.decompose.pipeline:decompose_file", (request,), name=title
            )
            ((_, outcome),) = run_each([task], limits)
            found = outcome.value if isinstance(outcome, WorkDone) else outcome.message
            yield title, time.monotonic() - began_s, found


def weak(report: Mapping[str, Any]) -> list[str]:
    """Name the workloads on which a wrong kernel passes."""
    return [
        f"{each['file']}: {each['message']}"
        for each in report["findings"]
        if each["code"] == "FILE-weak"
    ]


COLUMNS = (
    *("model", "kernels", "different", "tests run", "wrong kernels refused", "that pass"),
    *("workloads changed", "not tried", "outputs", "seconds", "GiB"),
)


def cells(title: str, seconds: float, report: Mapping[str, Any]) -> list[str]:
    """Give a row of the table."""
    counts = report["executed_counts"]
    tests, wrong, workloads = (
        counts.get(each, {}) for each in ("tests", "wrong kernels", "workloads")
    )
    left_out = sum(
        each.get(how, 0)
        for each in (tests, workloads)
        for how in ("too large", "not run", "without one")
    )
    kernels = report["counts"]["kernel"]
    shrunk = ", on a smaller copy" if report["shrunk"] else ""
    is_right = report["verified"] == "pass"
    return [
        title,
        *map(str, (kernels["instances"], kernels["nodes"], tests.get("run", 0))),
        *map(str, (wrong.get("refused", 0), wrong.get("pass", 0), workloads.get("changed", 0))),
        str(left_out),
        (report["equality"] if is_right else report["verified"].upper()) + shrunk,
        f"{seconds:.0f}",
        f"{report['peak_memory_bytes'] / GIB:.1f}",
    ]


def main() -> int:
    """Take them apart one after the other, print a row of each at once, then name what is weak or wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--small", action="store_true", help="small widths too")
    parser.add_argument("--memory", type=int, default=9, metavar="GIB", help="for each model")
    parser.add_argument("--out", type=Path, help="keep the decompositions in this folder")
    options = parser.parse_args()
    remarks: list[str] = []
    is_wrong = False
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        made = taken_apart(
            options.only, folder, is_small=options.small, memory_bytes=options.memory * GIB
        )
        for title, seconds, report in made:
            if isinstance(report, str):
                is_wrong = True
                remarks.append(f"{title}: FAILED: {report}")
                continue
            print(f"| {' | '.join(cells(title, seconds, report))} |", flush=True)
            is_wrong |= report["verified"] != "pass"
            errors = [each for each in report["findings"] if each["severity"] == "error"]
            remarks += [
                f"{title}: {each['file']}: {each['code']}: {each['message']}" for each in errors
            ]
            remarks += [f"{title}: {each}" for each in (*weak(report), *report["notes"])]
    print("", *(f"* {each}" for each in remarks), sep="\n")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
