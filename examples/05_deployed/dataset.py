"""Write a dataset of the three kernels at the sizes of a batch: definitions, workloads, solutions."""

import json
import shutil
import uuid
from pathlib import Path

from widths import ADD_NORM, DTYPE, HIDDEN, INNER, NORM, SILU_AND_MUL

HERE = Path(__file__).resolve().parent
# A value that lies between two numbers of bfloat16 may be rounded either way, before the weight and after it.
# A step is at most 1/128 of the value: two of them are 1.6%, more than the 1% that is allowed otherwise.
TOLERANCE = {"rtol": 0.02, "atol": 0.02} if DTYPE == "bf16" else None
TORCH_DTYPE = {"f32": "float32", "bf16": "bfloat16"}[DTYPE]
NORM_REFERENCE = """\
import torch


def run(x, weight):
    wide = x.to(torch.float32)
    mean_square = wide.pow(2).mean(-1, keepdim=True)
    return weight * (wide * torch.rsqrt(mean_square + 1e-5)).to(x.dtype)
"""
ADD_NORM_REFERENCE = """\
import torch


def run(x, residual, weight):
    total = x + residual
    wide = total.to(torch.float32)
    mean_square = wide.pow(2).mean(-1, keepdim=True)
    return weight * (wide * torch.rsqrt(mean_square + 1e-5)).to(x.dtype), total
"""
SILU_REFERENCE = """\
import torch.nn.functional as F


def run(gate, up):
    return F.silu(gate) * up
"""


def definition(name, op_type, width, *, inputs, reference, outputs=("y",)):
    rows = {"shape": ["tokens", "width"], "dtype": TORCH_DTYPE}
    weight = {"shape": ["width"], "dtype": TORCH_DTYPE, "role": "static"}
    return {
        "name": name,
        "op_type": op_type,
        "axes": {"tokens": {"type": "var"}, "width": {"type": "const", "value": width}},
        "inputs": {each: weight if each == "weight" else rows for each in inputs},
        "outputs": dict.fromkeys(outputs, rows),
        "reference": reference,
    }


DEFINITIONS = (
    definition(NORM, "rmsnorm", HIDDEN, inputs=("x", "weight"), reference=NORM_REFERENCE),
    definition(
        ADD_NORM,
        "add_rmsnorm",
        HIDDEN,
        inputs=("x", "residual", "weight"),
        outputs=("y", "total"),
        reference=ADD_NORM_REFERENCE,
    ),
    definition(
        SILU_AND_MUL, "silu_and_mul", INNER, inputs=("gate", "up"), reference=SILU_REFERENCE
    ),
)


def compiled(definition):
    """Have the reference be what `torch.compile` makes of it."""
    head, function = definition["reference"].split("def run(")
    reference = f"import torch\n{head}@torch.compile(dynamic=False)\ndef run({function}"
    return {**definition, "reference": reference}


def write(folder, sizes, *, is_compiled=False):
    """Write everything but traces; `sizes` are the numbers of rows of tokens that the phases have."""
    shutil.rmtree(folder, ignore_errors=True)
    for plain in DEFINITIONS:
        each = compiled(plain) if is_compiled else plain
        place = folder / "definitions" / each["op_type"] / f"{each['name']}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(each, indent=2))
        workloads = folder / "workloads" / each["op_type"] / f"{each['name']}.jsonl"
        workloads.parent.mkdir(parents=True, exist_ok=True)
        workloads.write_text("".join(workload(each, size) for size in sizes))
        source = HERE / "solutions" / f"{each['op_type']}.py"
        solution = folder / "solutions" / "triton" / each["op_type"] / each["name"] / "triton.json"
        if DTYPE == "bf16":
            solution.parent.mkdir(parents=True)
            solution.write_text(json.dumps(triton(each, source.read_text()), indent=2))
    if DTYPE == "f32":
        by_hand = HERE.parent / "04_served_model" / "solutions"
        shutil.copytree(by_hand, folder / "solutions" / "hand")


def workload(definition, size):
    inputs = {name: {"type": "random"} for name in definition["inputs"]}
    name = f"{definition['name']}/{size}"
    uid = str(uuid.uuid5(uuid.NAMESPACE_URL, name))
    line = {"axes": {"tokens": size}, "inputs": inputs, "uuid": uid}
    if TOLERANCE:
        line["tolerance"] = TOLERANCE
    whole = {"definition": definition["name"], "workload": line}
    return json.dumps({**whole, "solution": None, "evaluation": None}) + "\n"


def triton(definition, source):
    return {
        "name": f"{definition['name']}_triton",
        "definition": definition["name"],
        "author": "triton",
        "spec": {
            "language": "triton",
            "target_hardware": ["cuda"],
            "entry_point": "main.py::run",
            "destination_passing_style": True,
            "dependencies": [],
        },
        "sources": [{"path": "main.py", "content": source}],
    }
