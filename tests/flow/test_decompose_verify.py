"""`flashinfer-bench decompose verify` as a user runs it: exit codes, JSON, and files that misbehave."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.commands import call
from tests.marks import mostly_full
from tests.unit.decompose import published

HANDMADE = Path(__file__).parents[1] / "fixtures/decompositions/tiny_transformer"
GELU = "level_0_kernel/gelu_64.py"


def verify(*arguments: object) -> subprocess.CompletedProcess[str]:
    return call("decompose", "verify", *arguments)


@pytest.fixture
def handmade(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HANDMADE, tmp_path / "handmade"))


def test_a_good_decomposition_exits_with_0_and_shows_the_ladder() -> None:
    ended = verify(HANDMADE)

    assert ended.returncode == 0, ended.stderr
    assert "PASS (12 nodes, 21 kernel calls, 2 seeds" in ended.stdout
    assert "100% of 56 operations accounted for" in ended.stdout
    assert "outputs bit-equal" in ended.stdout


def test_a_bad_one_exits_with_1_and_names_file_rule_and_remedy(handmade: Path) -> None:
    path = handmade / "level_1_fusion/feed_forward.py"
    path.write_text(path.read_text().replace("hidden = self.gelu_64(", "hidden = F.gelu("))

    ended = verify(handmade, "--seeds", 1, "--json")

    document = json.loads(ended.stdout)
    (finding,) = [
        each for each in document["verification"]["findings"] if each["code"] == "GRAPH-compute"
    ]
    assert ended.returncode == document["exit_code"] == 1
    assert finding["file"] == "level_1_fusion/feed_forward.py"
    assert finding["node"] == "feed_forward"
    assert (
        finding["line"]
        == path.read_text()
        .splitlines()
        .index("        hidden = F.gelu(self.linear_32x64(x, up_weight, up_bias))")
        + 1
    )
    assert "Move the operation into a kernel of its own" in finding["remedy"]


@pytest.mark.full
def test_a_folder_without_a_tree_exits_with_2_and_one_line(tmp_path: Path) -> None:
    ended = verify(tmp_path)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"error: {tmp_path} holds no decomposition_tree.json\n"


def test_what_agents_have_published_is_judged(tmp_path: Path) -> None:
    wrong = published.changed("relu_2", forward="F.relu(x) + 1e-3")
    folder = published.write(tmp_path / "net", wrong, published.FORMS["nested"])
    lost = published.write(tmp_path / "lost/net", published.PIECES)
    (tmp_path / "lost/data/net.py").unlink()
    (tmp_path / "data/net.py").rename(tmp_path / "net.py")

    failed = verify(folder, "--model", tmp_path / "net.py", "--seeds", 1)
    unjudged = verify(lost)
    document = json.loads(verify(lost, "--json").stdout)

    assert failed.returncode == 1, failed.stderr
    assert (
        "level_0_kernel/relu_2.py: SHADOW-differs: it computes nothing (relu, add)" in failed.stdout
    )
    assert (unjudged.returncode, unjudged.stdout) == (2, "")
    assert unjudged.stderr.startswith(
        f"error: {lost}: cannot be judged because the original model is not there"
    )
    assert "cannot be judged because" in document["error"]["message"]


@pytest.mark.parametrize(
    "line",
    mostly_full(
        ["import os; os._exit(7)", "import ctypes; ctypes.string_at(0)"], "import os; os._exit(7)"
    ),
    ids=["exit", "crash"],
)
def test_a_file_that_ends_its_process_exits_with_2_and_one_line(handmade: Path, line: str) -> None:
    (handmade / GELU).write_text(line + "\n")

    ended = verify(handmade)

    assert ended.returncode == 2
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1
    assert str(handmade) in ended.stderr


def test_a_file_that_never_ends_exits_with_2_when_its_time_is_up(handmade: Path) -> None:
    (handmade / GELU).write_text("while True:\n    pass\n")

    ended = verify(handmade, "--timeout", 1)

    assert ended.returncode == 2
    assert "took more than 1 s" in ended.stderr


GATED = """
import torch
from torch import nn


def long_gate(x):
    for _ in range(10):
        x = torch.sin(x) * 0.5 + x
    return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x):
        return self.down(long_gate(self.up(x)))


def get_inputs():
    return [torch.rand(4, 8)]


def get_init_inputs():
    return []
"""


@pytest.mark.full
def test_what_was_grouped_by_other_limits_passes_with_the_overrides_and_not_without(
    tmp_path: Path,
) -> None:
    file, overrides = tmp_path / "gated.py", tmp_path / "mine.yaml"
    file.write_text(GATED)
    overrides.write_text("rules: {composites: {max_ops: 40}}")
    call("decompose", file, "--output", tmp_path, "--overrides", overrides).check_returncode()

    with_them = verify(tmp_path / "gated", "--seeds", 1, "--overrides", overrides, "--json")
    without = verify(tmp_path / "gated", "--seeds", 1, "--json")

    (refused,) = json.loads(without.stdout)["verification"]["findings"]
    assert json.loads(with_them.stdout)["verification"]["findings"] == []
    assert (with_them.returncode, without.returncode) == (0, 1)
    assert (refused["code"], refused["severity"]) == ("GRAPH-kernel", "error")


def test_overrides_that_mean_nothing_exit_with_2_and_name_the_place(tmp_path: Path) -> None:
    overrides = tmp_path / "mine.yaml"
    overrides.write_text("rules: {composite: off}")

    ended = verify(HANDMADE, "--overrides", overrides)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "mine.yaml: rules: no rule named 'composite'; did you mean 'composites'?" in ended.stderr
