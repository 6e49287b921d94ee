"""Candidates for problems in KernelBench's format, judged and timed by the real engine on the CPU."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import call

pytest.importorskip("torch")

LIBRARY = Path(__file__).parents[2] / "examples" / "kernelbench"
QUICK = [
    "--device",
    "cpu",
    "--num-trials",
    "1",
    "--iterations",
    "6",
    "--warmup-runs",
    "1",
    "--threads",
    "1",
]

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
CANDIDATES = {
    # Swish: right in other words, wrong by 3%, not Python, another class, and right about nothing it is given
    (1, 13, 0): "class ModelNew(nn.Module):\n    def forward(self, x):\n        return F.silu(x)\n",
    (1, 13, 1): "class ModelNew(nn.Module):\n    def forward(self, x):\n        return F.silu(x) * 1.03\n",
    (1, 13, 2): "class ModelNew(nn.Module)\n    pass\n",
    (1, 13, 3): "class Model(nn.Module):\n    def forward(self, x):\n        return F.silu(x)\n",
    (1, 13, 4): "class ModelNew(nn.Module):\n    def forward(self, x):\n        raise ValueError('no kernel ' * 999)\n",
    # top-k: a tuple of values and integers; the second candidate mistakes one index
    (1, 33, 0): "class ModelNew(nn.Module):\n    def __init__(self, k):\n        super().__init__()\n"
    "        self.k = k\n\n    def forward(self, x):\n"
    "        values, indices = torch.sort(x, dim=-1, descending=True, stable=True)\n"
    "        return values[:, : self.k].contiguous(), indices[:, : self.k].contiguous()\n",
    (1, 33, 1): "class ModelNew(nn.Module):\n    def __init__(self, k):\n        super().__init__()\n"
    "        self.k = k\n\n    def forward(self, x):\n"
    "        values, indices = torch.topk(x, self.k, dim=-1)\n"
    "        indices[0, 0] += 1\n        return values, indices\n",
    # cross entropy: class indices are integers of their range
    (1, 48, 0): "class ModelNew(nn.Module):\n    def forward(self, logits, classes):\n"
    "        assert classes.dtype == torch.int64 and 0 <= classes.min() and classes.max() < 200\n"
    "        picked = logits.gather(1, classes[:, None]).squeeze(1)\n"
    "        return (torch.logsumexp(logits, dim=1) - picked).mean()\n",
    (1, 48, 1): "class ModelNew(nn.Module):\n    def forward(self, logits, classes):\n"
    "        return torch.full((), 5.8)\n",
    # a classifier's dict, its weights under the same names but made in another order
    (2, 19, 0): "class ModelNew(nn.Module):\n    def __init__(self, features, hidden, classes):\n"
    "        super().__init__()\n        self.head = nn.Linear(hidden, classes)\n"
    "        self.body = nn.Sequential(nn.Linear(features, hidden), nn.ELU(), nn.LayerNorm(hidden))\n\n"
    "    def forward(self, x):\n        features = self.body(x)\n        logits = self.head(features)\n"
    "        return {'predicted': logits.argmax(-1), 'features': features, 'logits': logits}\n",
    # the same, under other names and in another order: nobody can know which weight is which
    (2, 19, 1): "class ModelNew(nn.Module):\n    def __init__(self, features, hidden, classes):\n"
    "        super().__init__()\n        self.out = nn.Linear(hidden, classes)\n"
    "        self.inner = nn.Sequential(nn.Linear(features, hidden), nn.ELU(), nn.LayerNorm(hidden))\n\n"
    "    def forward(self, x):\n        features = self.inner(x)\n        logits = self.out(features)\n"
    "        return {'logits': logits, 'features': features, 'predicted': logits.argmax(-1)}\n",
    # triangles are nothing we draw: what get_inputs makes is scaled anew, so that no answer can be kept
    (1, 8, 0): "class ModelNew(nn.Module):\n    def forward(self, A, B):\n        return A.triu() @ B.triu()\n",
    (1, 8, 1): "class ModelNew(nn.Module):\n    kept = None\n\n    def forward(self, A, B):\n"
    "        if self.kept is None:\n            self.kept = A @ B\n        return self.kept.clone()\n",
    # dropout that draws: the same draws under the same seed
    (2, 9, 0): "class ModelNew(nn.Module):\n    def __init__(self, i, o, p):\n        super().__init__()\n"
    "        self.linear = nn.Linear(i, o)\n        self.p = p\n\n    def forward(self, x):\n"
    "        return F.softmax(F.dropout(self.linear(x), self.p), dim=1)\n",
    (2, 9, 1): "class ModelNew(nn.Module):\n    def __init__(self, i, o, p):\n        super().__init__()\n"
    "        self.linear = nn.Linear(i, o)\n\n    def forward(self, x):\n"
    "        return torch.zeros(x.shape[0], 300)\n",
}  # fmt: skip


def run_eval(*arguments: str) -> tuple[int, str, str]:
    done = call("kernelbench", "eval", *arguments)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("samples")
    for (level, problem, sample), text in CANDIDATES.items():
        name = f"level_{level}_problem_{problem}_sample_{sample}_kernel.py"
        (folder / name).write_text(HEAD + text)
    code, out, err = run_eval("--samples", str(folder), "--dataset", str(LIBRARY), "--json", *QUICK)
    assert out, err
    return {"code": code, **json.loads(out)}


def sample(document: dict[str, Any], level: int, problem: int, number: int) -> dict[str, Any]:
    (found,) = (
        each
        for each in document["eval"]["samples"]
        if (each["level"], each["problem_id"], each["sample_id"]) == (level, problem, number)
    )
    return found


@pytest.mark.parametrize(
    "which",
    [(1, 13, 0), (1, 33, 0), (1, 48, 0), (1, 8, 0), (2, 19, 0), (2, 9, 0)],
    ids=["other words", "tuple", "integers", "triangles", "weights by name", "dropout"],
)
def test_a_right_candidate_is_correct_and_timed(
    document: dict[str, Any], which: tuple[int, int, int]
) -> None:
    found = sample(document, *which)

    assert (found["status"], found["compiled"], found["correctness"]) == ("PASSED", True, True), (
        found["log"]
    )
    assert found["runtime"] > 0
    assert found["runtime_stats"]["num_trials"] >= 6
    assert found["runtime_stats"]["min"] <= found["runtime"] <= found["runtime_stats"]["max"]
    assert found["speedups"]["eager"]["speedup"] > 0


@pytest.mark.parametrize(
    ("which", "status"),
    [
        ((1, 13, 1), "INCORRECT_NUMERICAL"),
        ((1, 13, 4), "RUNTIME_ERROR"),
        ((1, 33, 1), "INCORRECT_NUMERICAL"),
        ((1, 48, 1), "INCORRECT_NUMERICAL"),
        ((1, 8, 1), "INCORRECT_NUMERICAL"),
        ((2, 19, 1), "INCORRECT_NUMERICAL"),
        ((2, 9, 1), "INCORRECT_NUMERICAL"),
    ],
    ids=[
        "3% off",
        "raises",
        "one index",
        "a constant loss",
        "a remembered answer",
        "weights by nobody's name",
        "zeros for a softmax",
    ],
)
def test_a_wrong_candidate_is_not_correct_and_not_timed(
    document: dict[str, Any], which: tuple[int, int, int], status: str
) -> None:
    found = sample(document, *which)

    assert (found["status"], found["compiled"], found["correctness"]) == (status, True, False)
    assert (found["runtime"], found["runtime_stats"], found["speedups"]) == (-1.0, {}, {})


def test_a_syntax_error_is_a_candidate_that_did_not_compile(document: dict[str, Any]) -> None:
    found = sample(document, 1, 13, 2)

    assert (found["compiled"], found["correctness"]) == (False, False)
    assert "SyntaxError" in found["metadata"]["compilation_error"]


def test_a_file_without_the_class_says_which_it_lacks(document: dict[str, Any]) -> None:
    found = sample(document, 1, 13, 3)

    assert not found["compiled"]
    assert "defines no class ModelNew" in found["metadata"]["compilation_error"]


def test_weights_that_have_no_namesake_are_named(document: dict[str, Any]) -> None:
    assert "given by seed, not by name: out.weight, out.bias" in sample(document, 2, 19, 1)["log"]


def test_the_report_says_which_inputs_are_not_drawn(document: dict[str, Any]) -> None:
    problems = {each["problem"]: each for each in document["eval"]["problems"]}

    triangles = problems["level1/8_UpperTriangularMatmul"]
    assert triangles["scaled_inputs"] == ["x0", "x1"]
    assert problems["level1/13_Swish"]["scaled_inputs"] == []
    assert not any(
        each["fixed_inputs"] or each["is_same_in_every_call"] for each in problems.values()
    )


def test_an_exception_reaches_the_metadata(document: dict[str, Any]) -> None:
    assert "no kernel" in sample(document, 1, 13, 4)["metadata"]["runtime_error"]


def test_a_long_log_is_cut_and_says_where_all_of_it_is(document: dict[str, Any]) -> None:
    found, whole = sample(document, 1, 13, 4), document["eval"]["log_file"]

    assert len(found["log"]) < 9_000
    assert f"left out; the whole log: {whole} …]" in found["log"]
    assert Path(whole).read_text().count("no kernel ") >= 998


def test_pass_at_k_and_fast_p_count_what_is_right(document: dict[str, Any]) -> None:
    found = document["eval"]

    # 1/5 of swish, 1/2 of each of the other five problems
    assert found["pass_at_k"]["1"] == pytest.approx((1 / 5 + 5 * 1 / 2) / 6)
    right = next(each for each in found["fast_p"] if each["threshold"] == 0)
    assert right["share"] == pytest.approx(found["pass_at_k"]["1"])
    assert all(each["comparison"] == "speedup > threshold" for each in found["fast_p"])
    assert document["code"] == document["exit_code"] == 1


@pytest.mark.full
def test_a_single_candidate_passes_with_two_seeds_of_weights(tmp_path: Path) -> None:
    candidate = tmp_path / "model_new.py"
    candidate.write_text(
        (LIBRARY / "level2" / "36_SharedHelperNorm_Linear.py")
        .read_text()
        .replace("class Model(", "class ModelNew(")
    )
    (tmp_path / "shared_layers.py").write_text(
        (LIBRARY / "level2" / "shared_layers.py").read_text()
    )

    code, out, err = run_eval(
        "SharedHelperNorm_Linear",
        str(candidate),
        "--dataset",
        str(LIBRARY),
        "--seeds",
        "1",
        "2",
        *QUICK,
    )

    assert code == 0, err
    assert "1 of 1 candidate correct" in out
    assert "pass@1: 100%" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["1/13", "nowhere.py"], "no file nowhere.py"),
        (["1/999", __file__], "level1 has no problem number 999"),
        (["1/13"], "name a problem and a candidate's file"),
        (
            ["1/13", __file__, "--baselines", "tensorrt"],
            "no baseline named 'tensorrt'; there are eager and compile",
        ),
    ],
)
def test_what_cannot_be_is_one_error(arguments: list[str], said: str) -> None:
    code, _, err = run_eval(*arguments, "--dataset", str(LIBRARY))

    assert code == 2
    assert said in err
    assert "Traceback" not in err


@pytest.mark.full
def test_a_problem_that_raises_is_one_error_that_names_its_line(tmp_path: Path) -> None:
    problem = tmp_path / "broken.py"
    problem.write_text(
        HEAD
        + "class Model(nn.Module):\n    def forward(self, x):\n        return x @ x.reshape(7, -1)\n\n\n"
        "def get_inputs():\n    return [torch.rand(4, 4)]\n\n\ndef get_init_inputs():\n    return []\n"
    )

    code, _, err = run_eval(str(problem), str(problem), *QUICK)

    assert code == 2
    assert f"{problem}:8: forward raised RuntimeError at `return x @ x.reshape(7, -1)`" in err
