"""Tasks that are weak on purpose, each found by the code that is for it; one run serves them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.data import (
    Definition,
    Solution,
    Trace,
    Workload,
    save_json_file,
    save_jsonl_file,
)
from tests.commands import call
from tests.flow.kernels import solution

BUNDLED = Path(__file__).parents[2] / "examples" / "dataset"
VECTOR = {"shape": ["n"], "dtype": "float32"}
INTEGERS = {"shape": ["n"], "dtype": "int32"}
RANDOM = {"type": "random"}


def definition(
    name: str,
    body: str,
    *,
    inputs: dict[str, Any] | None = None,
    output: dict[str, Any] | None = None,
    **rest: Any,
) -> Definition:
    given = {"x": VECTOR} if inputs is None else inputs
    arguments = ", ".join(given)
    return Definition.model_validate(
        {
            "name": name,
            "op_type": "weak",
            "axes": {"n": {"type": "var"}},
            "inputs": given,
            "outputs": {"y": output or VECTOR},
            "reference": f"import os\nimport zlib\nimport torch\n\n\ndef run({arguments}):\n    {body}\n",
            **rest,
        }
    )


def distributed(**distribution: Any) -> dict[str, Any]:
    return {"type": "random", "distribution": distribution}


BAG = {
    "kv_indptr": {"shape": ["n"], "dtype": "int32", "role": "metadata"},
    "pages": {"shape": ["n"], "dtype": "int32"},
    "x": VECTOR,
}
ODD_PIECES = (
    "piece = torch.searchsorted(kv_indptr, torch.arange(len(x), dtype=torch.int32), right=True); "
    "return x[pages.long()] * (1 + piece % 2)"
)

DEFINITIONS = {
    each.name: each
    for each in (
        definition("sound", "return torch.sin(3 * x)"),
        definition("sound_bag", ODD_PIECES, inputs=BAG),
        definition(
            "sound_sampler",
            "return torch.multinomial(probs, 1).reshape(-1).int()",
            inputs={"probs": {"shape": ["n", "vocabulary"], "dtype": "float32"}},
            output=INTEGERS,
            op_type="sampling",
            axes={"n": {"type": "var"}, "vocabulary": {"type": "const", "value": 64}},
        ),
        definition("tiny", "return x * 1e-3"),
        definition("copied", "return x * 1.001"),
        definition("mostly_tiny", "return torch.where(x > 1.2, x, x * 1e-4)"),
        definition("nearly_constant", "return 5 + x * 1e-3"),
        definition("same_for_all", "return torch.arange(len(x)).float() + 0 * x"),
        definition("unseeded", "return x + torch.tensor(list(os.urandom(1)))"),
        definition("seeded", "return x + torch.rand(x.shape)"),
        definition("by_process", "return x * zlib.crc32(b'%d' % os.getpid())"),
        definition("raises", "return x[10**6]"),
        definition("misshapen", "return x[1:]"),
        definition("in_place", "return x.add_(1)"),
        definition("dies", "os.abort()"),
        definition("disagreeing", "return torch.sin(3 * x)"),
        definition("bits", "return x > 0", output={"shape": ["n"], "dtype": "bool"}),
        definition("stuck", "return torch.sin(x)", inputs={"x": VECTOR | {"role": "static"}}),
        definition("illegal", "return x[pages.long()]", inputs={"pages": INTEGERS, "x": VECTOR}),
    )
}
SOURCES: dict[str, dict[str, Any]] = {
    "sound_bag": {
        "kv_indptr": distributed(type="index_pointers", total="n"),
        "pages": distributed(type="page_table", pages="n"),
        "x": RANDOM,
    },
    "illegal": {"pages": distributed(type="page_table", pages="n // 2"), "x": RANDOM},
}
BASELINES = [
    solution("import torch\ndef run(x):\n    return torch.sin(3 * x)\n", definition="sound"),
    solution("import torch\ndef run(x):\n    return torch.cos(3 * x)\n", definition="disagreeing"),
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Messages by definition of a dataset of tasks that are weak in one way each."""
    root = tmp_path_factory.mktemp("weak")
    for name, each in DEFINITIONS.items():
        inputs = SOURCES.get(name) or dict.fromkeys(each.inputs, RANDOM)
        workloads = [
            Trace(definition=name, workload=Workload(axes={"n": n}, inputs=inputs))
            for n in (5000, 512)
        ]
        save_json_file(each, root / "definitions" / "weak" / f"{name}.json")
        save_jsonl_file(workloads, root / "workloads" / "weak" / f"{name}.jsonl")
    for each_baseline in BASELINES:
        _save_baseline(each_baseline, root)
    report = validated(root, "--checks", "task", "--run")
    assert report["exit_code"] == 1
    return {name: part["task"]["messages"] for name, part in report["definitions"].items()}


def _save_baseline(found: Solution, root: Path) -> None:
    name = f"{found.definition}_baseline"
    folder = root / "solutions" / "baseline" / "weak" / found.definition
    baseline = found.model_copy(update={"author": "baseline", "name": name})
    save_json_file(baseline, folder / f"{name}.json")


def validated(root: Path, *arguments: str) -> dict[str, Any]:
    done = call("validate", "--local", root, "--json", *arguments)
    assert done.returncode in {0, 1}, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


FOUND = {
    "sound": [],
    "sound_bag": [],
    "sound_sampler": [],
    "bits": [],
    "tiny": [
        ("TSK-05", "warning", "passes as output 'y': zeros (100% match), the mean of the output"),
        ("TSK-07", "warning", "output 'y' of different calls: one passes for the other"),
    ],
    "copied": [("TSK-05", "warning", "passes as output 'y': a copy of input 'x' (100% match)")],
    "mostly_tiny": [("TSK-06", "warning", "of the wrong elements pass")],
    "nearly_constant": [
        ("TSK-05", "warning", "passes as output 'y': the mean of the output (5) (100% match)"),
        ("TSK-07", "warning", "one passes for the other"),
    ],
    "same_for_all": [("TSK-07", "warning", "output 'y' of different calls: one passes")],
    "unseeded": [("TSK-02", "error", "the reference, run twice on the same inputs, differs: ")],
    "seeded": [
        ("TSK-02", "error", "the reference, in a process of its own, ended with INCORRECT_NUM"),
        ("TSK-03", "warning", "something else after another `torch.manual_seed`: output 'y': "),
    ],
    "by_process": [("TSK-02", "error", "the reference, in a process of its own, ended with ")],
    "raises": [("TSK-01", "error", "the reference raised IndexError: index 1000000")],
    "misshapen": [("TSK-01", "error", "output 'y' has shape (511,), not (512,)")],
    "in_place": [("TSK-01", "error", "the reference changes its inputs")],
    "dies": [("TSK-01", "error", "while the reference ran, its process was ended by SIGABRT")],
    "disagreeing": [
        ("TSK-04", "error", "baseline 'disagreeing_baseline' ended with INCORRECT_NUMERICAL")
    ],
    "stuck": [("TSK-08", "warning", "all calls of a trial get the same inputs")],
    "illegal": [("TSK-01", "error", "'page_table' names 512 pages and there are 256")],
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_what_is_weak_is_found_and_nothing_else(
    told: dict[str, list[dict[str, Any]]], name: str
) -> None:
    found = told[name]

    codes = [(each["code"], each["level"]) for each in found]

    assert codes == [(code, level) for code, level, _ in FOUND[name]], found
    for each, (_, _, words) in zip(found, FOUND[name], strict=True):
        assert words in each["message"]
        assert each["remedy"]


@pytest.mark.full
def test_the_bundled_dataset_has_no_weak_task() -> None:
    report = validated(BUNDLED, "--checks", "task", "--run")

    messages = [part["task"]["messages"] for part in report["definitions"].values()]

    assert messages == [[]] * len(messages)
    assert report["exit_code"] == 0
