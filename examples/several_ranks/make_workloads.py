"""Write the workloads of this dataset. Run it after changing a size here; the same sizes give the same files."""

import json
from pathlib import Path

from flashinfer_bench import Workload

ROOT = Path(__file__).parent
RANDOM = {"type": "random"}
SIZES = {
    ("all_reduce_rmsnorm", "all_reduce_rmsnorm_h4096_ws2", "num_tokens"): (
        ("partial", "residual", "weight"),
        {None: (16,), "full": (128, 2048)},
    ),
    ("tensor_parallel_gemm", "row_parallel_gemm_n1024_k2048_ws2", "M"): (
        ("A", "B"),
        {None: (8,), "full": (128, 2048)},
    ),
    ("expert_all_to_all", "expert_all_to_all_h2048_ws2", "num_tokens"): (
        ("tokens", "gain"),
        {None: (16,), "full": (256, 4096)},
    ),
}


def main():
    for (op_type, definition, axis), (inputs, sizes) in SIZES.items():
        path = ROOT / "workloads" / op_type / f"{definition}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            for size_class, group in sizes.items():
                for size in group:
                    workload = Workload(
                        axes={axis: size},
                        inputs=dict.fromkeys(inputs, RANDOM),
                        size_class=size_class,
                    )
                    line = {"definition": definition, "workload": workload.to_dict()}
                    file.write(json.dumps(line | {"solution": None, "evaluation": None}) + "\n")


if __name__ == "__main__":
    main()
