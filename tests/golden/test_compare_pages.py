"""What `report compare`, `explain`, `report history` and `report summary --score` say about recorded traces.

`runs` holds sixteen real runs of one solution, of which the last six ran slower code on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flashinfer_bench.cli.main import cli

SOLUTIONS = ["rmsnorm_h4096_pytorch", "rmsnorm_h4096_cpp", "--local", "runs"]
RUNS = ["run:night-10", "run:night-11", "--local", "runs"]
HARDWARE = ["AMD EPYC", "NVIDIA H200", "--local", "dataset"]
GATES = ["--fail-on", "slower>3%", "--fail-on", "failed", "--fail-on", "undecided"]
COMMANDS = {
    "compare-solutions.txt": (0, ["report", "compare", *SOLUTIONS]),
    "compare-solutions.json": (0, ["report", "compare", *SOLUTIONS, "--json"]),
    "compare-solutions.md": (0, ["report", "compare", *SOLUTIONS, "--markdown"]),
    "compare-runs.txt": (1, ["report", "compare", *RUNS, *GATES]),
    "compare-runs.json": (1, ["report", "compare", *RUNS, *GATES, "--json"]),
    "compare-runs.md": (1, ["report", "compare", *RUNS, *GATES, "--markdown"]),
    "compare-runs-by-latency.txt": (0, ["report", "compare", *RUNS, "--by", "latency"]),
    "compare-hardware.txt": (0, ["report", "compare", *HARDWARE]),
    "compare-datasets.txt": (1, ["report", "compare", "dataset", "runs", "--fail-on", "missing"]),
    "compare-same.txt": (1, ["report", "compare", "runs", "runs", *GATES]),
    "explain.txt": (0, ["explain", *SOLUTIONS]),
    "explain.json": (0, ["explain", *SOLUTIONS, "--json"]),
    "explain-runs.txt": (0, ["explain", *RUNS]),
    "history.txt": (0, ["report", "history", "rmsnorm_h4096_cpp", "--local", "runs"]),
    "history.json": (0, ["report", "history", "rmsnorm_h4096_cpp", "--local", "runs", "--json"]),
    "history-few.txt": (0, ["report", "history", "rmsnorm_h4096_pytorch", "--local", "runs"]),
    "history-by-latency.txt": (
        0,
        ["report", "history", "rmsnorm_h4096_cpp", "--local", "runs", "--by", "latency"],
    ),
}
SCORES = {
    "geometric": "geometric",
    "coverage": "coverage",
    "sol": "sol",
    "sol-gap": "sol-gap",
    "fast_p>=1": "fast_p-at-least",
    "win@1.0": "win",
    "pass@2": "pass",
    "kernelbench": "kernelbench",
    "flashinfer-bench": "flashinfer-bench",
}


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], Result]:
    """Run a command in the folder of the recorded datasets."""
    monkeypatch.chdir(Path(__file__).parent)
    return lambda arguments: CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_said(
    name: str, say: Callable[[list[str]], Result], compare: Callable[[str, str], None]
) -> None:
    exit_code, arguments = COMMANDS[name]

    said = say(arguments)

    assert said.exit_code == exit_code
    compare(name, said.stdout)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("folder", ["dataset", "runs"])
def test_a_score_says_what_it_said(
    folder: str,
    score: str,
    say: Callable[[list[str]], Result],
    compare: Callable[[str, str], None],
) -> None:
    said = say(["report", "summary", "--local", folder, "--score", score])

    assert said.exit_code == 0
    compare(f"score-{SCORES[score]}-{folder}.txt", said.stdout)


def test_a_score_by_given_times_says_what_they_are(
    say: Callable[[list[str]], Result], compare: Callable[[str, str], None]
) -> None:
    said = say(
        ["report", "summary", "dataset", "--score", "sol-execbench", "--times", "times.json"]
    )

    assert said.exit_code == 0
    compare("score-sol-execbench-dataset.txt", said.stdout)


def test_given_times_and_their_score_belong_together(say: Callable[[list[str]], Result]) -> None:
    alone = say(["report", "summary", "dataset", "--score", "sol-execbench"])
    other = say(["report", "summary", "dataset", "--times", "times.json"])

    assert alone.exit_code == other.exit_code == 2
    assert "--score sol-execbench and --times FILE belong together" in alone.stderr


def test_scores_as_json(
    say: Callable[[list[str]], Result], compare: Callable[[str, str], None]
) -> None:
    said = say(["report", "summary", "--local", "runs", "--score", "kernelbench", "--json"])

    compare("score-kernelbench.json", said.stdout)


def test_junit_holds_every_job_and_gate(
    say: Callable[[list[str]], Result], compare: Callable[[str, str], None], tmp_path: Path
) -> None:
    file = tmp_path / "gates.xml"

    say(["report", "compare", *RUNS, *GATES, "--junit", str(file)])

    compare("compare-runs.xml", file.read_text())
