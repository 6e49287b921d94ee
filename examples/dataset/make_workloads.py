"""Write the workloads of this dataset, and the tensors that some of them read from files.

Run it after changing a size here; the same sizes give the same files. Needs torch and safetensors.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from flashinfer_bench import SafetensorsInput, ScalarInput, Workload
from flashinfer_bench.data.workload import uuid_of

ROOT = Path(__file__).parent
RANDOM = {"type": "random"}
# A few likely tokens a row, as a language model gives them; the softmax of standard normal numbers has none.
PEAKED = {"type": "random", "distribution": {"type": "probabilities", "temperature": 0.25}}
# Scores of different heads differ by several, as real ones do. With plain queries every head would weigh its
# keys alike, and a constant would pass for the logarithm of the sum.
QUERIES = {"type": "random", "distribution": {"type": "normal", "std": 4.0}}
ROPE = "rope_with_cos_sin_cache_neox_style_d128_rd128"
ATTENTION = "gqa_paged_decode_h32_kv8_d128_ps1"

# Sizes by class; None is a size that a laptop's CPU and a serving GPU both see.
BATCHES = {None: (1, 32), "small": (128,), "full": (512, 4096, 16384)}
WITH_GRADIENT = ("hidden_states", "weight", "grad_output")
SIMPLE = {
    ("rmsnorm", "rmsnorm_h4096", "batch_size", ("hidden_states", "weight")): BATCHES,
    ("rmsnorm_backward", "rmsnorm_h4096_backward", "batch_size", WITH_GRADIENT): BATCHES,
    ("rmsnorm_forward_backward", "rmsnorm_h4096_forward_backward", "batch_size", WITH_GRADIENT): (
        BATCHES
    ),
    (
        "fused_add_rmsnorm",
        "fused_add_rmsnorm_h4096",
        "batch_size",
        ("hidden_states", "residual", "weight"),
    ): BATCHES,
    ("silu_and_mul", "silu_and_mul_i14336", "num_tokens", ("gate_up",)): {
        None: (1, 8),
        "small": (32,),
        "full": (128, 2048, 8192),
    },
    ("gemm", "gemm_n1024_k4096", "M", ("A", "B")): {
        None: (1, 8),
        "small": (32,),
        "full": (128, 2048, 8192),
    },
    ("moe_routing", "moe_routing_softmax_topk8_e128", "seq_len", ("routing_logits",)): {
        None: (1, 32),
        "small": (128,),
        "full": (1024, 16384),
    },
    ("sampling", "top_k_sampling_from_probs_v32000", "batch_size", ("probs", "top_k")): {
        None: (1,),
        "small": (4, 8),
        "full": (64, 256, 1024),
    },
    ("softmax", "softmax_v128256", "batch_size", ("logits",)): {
        None: (1,),
        "small": (4, 8),
        "full": (16, 64, 256),
    },
}

OTHERS = {
    "softmax": {"temperature": ScalarInput(value=0.2)},
    "sampling": {"probs": PEAKED, "top_k": ScalarInput(value=50)},
}

# Nearly all of 128256 probabilities are far below 1e-2: only what is relatively close is right.
# Gradients are also held against float64.
TOLERANCES = {
    "softmax": {"atol": 1e-30},
    "rmsnorm_backward": {"max_precision_ratio": 8},
    "rmsnorm_forward_backward": {"max_precision_ratio": 8},
}

# Class, tokens, longest sequence the cache is made for, and whether the tokens are one prompt or one a sequence.
ROPE_SIZES = (
    (None, 1, 8192, "decode"),
    (None, 32, 8192, "decode"),
    ("small", 128, 8192, "prefill"),
    ("full", 1024, 131072, "prefill"),
    ("full", 8192, 131072, "prefill"),
)

# Class, sequences, and the mean of their lengths.
ATTENTION_SIZES = (
    ("small", 1, 512),
    (None, 4, 256),
    ("small", 8, 192),
    ("full", 1, 8192),
    ("full", 16, 1024),
    ("full", 64, 1024),
)


def main():
    torch.manual_seed(0)
    for (op_type, definition, axis, inputs), sizes in SIMPLE.items():
        others = OTHERS.get(op_type, {})
        workloads = [
            Workload(
                axes={axis: size},
                inputs=dict.fromkeys(inputs, RANDOM) | others,
                size_class=size_class,
                tolerance=TOLERANCES.get(op_type),
            )
            for size_class, group in sizes.items()
            for size in group
        ]
        if inputs == WITH_GRADIENT:  # two definitions have these sizes and inputs
            workloads = [named_for(definition, workload) for workload in workloads]
        write(op_type, definition, workloads)
    write("rope", ROPE, [rope_workload(*size) for size in ROPE_SIZES])
    write("gqa_paged", ATTENTION, [attention_workload(*size) for size in ATTENTION_SIZES])


def named_for(definition, workload):
    """The workload, with an identity that depends on its definition, too."""
    return workload.model_copy(
        update={"uuid": uuid_of(definition, workload.axes, workload.inputs)}
    )


def rope_workload(size_class, num_tokens, max_seq_len, stage):
    """Positions of a prompt that begins somewhere, or of one token in each of many sequences."""
    if stage == "prefill":
        start = torch.randint(max_seq_len - num_tokens + 1, ())
        positions = start + torch.arange(num_tokens)
    else:
        positions = torch.randint(max_seq_len, (num_tokens,))
    axes = {
        "num_tokens": num_tokens,
        "num_qo_heads": 32,
        "num_kv_heads": 8,
        "max_seq_len": max_seq_len,
    }
    stored = store("rope", ROPE, f"{stage}_{num_tokens}", {"positions": positions})
    inputs = {"q": RANDOM, "k": RANDOM, "cos_sin_cache": RANDOM, **stored}
    return Workload(axes=axes, inputs=inputs, size_class=size_class)


def attention_workload(size_class, batch_size, mean_length):
    """Sequences of half to one and a half times the mean length, on pages scattered over the cache."""
    lengths = torch.randint(mean_length // 2, mean_length * 3 // 2 + 1, (batch_size,))
    if batch_size == 1:
        lengths[0] = mean_length
    indptr = torch.cat((torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)))
    num_kv_indices = int(indptr[-1])
    num_pages = -(-num_kv_indices * 5 // 4 // 64) * 64  # a fifth of the cache is free
    pages = torch.randperm(num_pages)[:num_kv_indices]
    axes = {
        "batch_size": batch_size,
        "num_pages": num_pages,
        "len_indptr": batch_size + 1,
        "num_kv_indices": num_kv_indices,
    }
    tensors = {"kv_indptr": indptr.to(torch.int32), "kv_indices": pages.to(torch.int32)}
    stored = store("gqa_paged", ATTENTION, f"batch_{batch_size}_{mean_length}", tensors)
    inputs = {
        "q": QUERIES,
        **dict.fromkeys(("k_cache", "v_cache"), RANDOM),
        **stored,
        "sm_scale": ScalarInput(value=128**-0.5),
    }
    return Workload(axes=axes, inputs=inputs, size_class=size_class)


def store(op_type, definition, name, tensors):
    """Write tensors to a file; give the inputs that read them."""
    path = f"blob/workloads/{op_type}/{definition}/{name}.safetensors"
    (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, ROOT / path)
    return {key: SafetensorsInput(path=path, tensor_key=key) for key in tensors}


def write(op_type, definition, workloads):
    """Write the workloads of one definition, one a line."""
    path = ROOT / "workloads" / op_type / f"{definition}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps(
            {
                "definition": definition,
                "workload": workload.to_dict(),
                "solution": None,
                "evaluation": None,
            }
        )
        for workload in workloads
    ]
    path.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
