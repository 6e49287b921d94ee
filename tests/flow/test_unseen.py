"""Solutions that passed their workloads are tried on sizes that they never saw, by the real processes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.data import Definition, Evaluation
from tests.commands import call
from tests.flow.kernels import HONEST, dataset, quick, solution, write_dataset

SIZES = (1000, 4000, 16000)
KERNELS = {
    "honest": HONEST,
    "right at known sizes only": f"def run(x):\n    return x + (1 if len(x) in {SIZES} else 2)\n",
    "slow elsewhere": f"""
        def run(x):
            for _ in range(1 if len(x) in {SIZES} else 600):  # whatever else this machine does
                y = x + 1
            return y
        """,
    "crashes elsewhere": f"""
        def run(x):
            assert len(x) in {SIZES}, "no kernel for this size"
            return x + 1
        """,
    "wrong everywhere": "def run(x):\n    return x + 2\n",
}


@cache
def everything() -> dict[str, list[Evaluation]]:
    """Run all kernels on all workloads; give how each job ended, by kernel and in order."""
    held = dataset(*(solution(text, name=name) for name, text in KERNELS.items()), sizes=SIZES)
    with Benchmark(held, quick(unseen=2, iterations=20), device="cpu") as benchmark:
        traces = benchmark.run_all(dump_traces=False).traces["increment"]
    return {name: [t.evaluation for t in traces if t.solution == name] for name in KERNELS}


def test_an_honest_kernel_is_tried_and_not_marked() -> None:
    *first, last = everything()["honest"]

    assert [each.unseen for each in first] == [None, None]
    assert not last.unseen.specialised
    assert {each.verdict for each in last.unseen.configurations} == {"as_predicted"}
    tried = [each.workload.axes["n"] for each in last.unseen.configurations]
    assert len(set(tried) - set(SIZES)) == 2


def test_a_kernel_that_is_right_at_its_workloads_sizes_only_is_marked_and_still_passed() -> None:
    found = everything()["right at known sizes only"]

    unseen = found[-1].unseen
    assert [each.status for each in found] == ["PASSED"] * 3
    assert unseen.specialised
    assert {(each.verdict, each.status) for each in unseen.configurations} == {
        ("wrong", "INCORRECT_NUMERICAL")
    }


def test_a_kernel_with_a_slow_path_for_other_sizes_is_marked_with_both_speedups() -> None:
    unseen = everything()["slow elsewhere"][-1].unseen

    first = unseen.configurations[0]
    assert unseen.specialised
    assert (first.verdict, first.status) == ("slow", "PASSED")
    assert first.speedup_interval[1] < first.predicted_speedup / 2


def test_a_kernel_that_crashes_elsewhere_is_marked_with_its_own_words() -> None:
    unseen = everything()["crashes elsewhere"][-1].unseen

    (evidence,) = {each.evidence for each in unseen.configurations}
    assert unseen.specialised
    assert "no kernel for this size" in evidence


def test_a_kernel_that_fails_its_workloads_is_tried_on_no_other() -> None:
    found = everything()["wrong everywhere"]

    assert [each.status for each in found] == ["INCORRECT_NUMERICAL"] * 3
    assert [each.unseen for each in found] == [None] * 3


HALVES = Definition.model_validate(
    {
        "name": "halves",
        "op_type": "elementwise",
        "axes": {"n": {"type": "var"}},
        "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
        "reference": "def run(x):\n    assert len(x) in (1000, 4000), 'not meant'\n    return x + 1\n",
    }
)


def test_where_the_reference_fails_nobody_is_marked() -> None:
    held = dataset(solution(HONEST, definition="halves"), sizes=(1000, 4000), definition=HALVES)

    with Benchmark(held, quick(unseen=2), device="cpu") as benchmark:
        (_, last) = benchmark.run_all(dump_traces=False).traces["halves"]

    unseen = last.evaluation.unseen
    assert not unseen.specialised
    assert {each.verdict for each in unseen.configurations} == {"not_tried"}
    assert "not meant" in unseen.configurations[0].evidence


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with the traces of a run of a kernel that is right at its workloads' sizes only."""
    made = solution(KERNELS["right at known sizes only"], name="right")
    root = write_dataset(tmp_path_factory.mktemp("dataset"), made, sizes=SIZES)
    done = call("run", "--local", root, "--device", "cpu", "--unseen", "1", "--iterations", "5")
    (root / "page.txt").write_text(done.stdout)
    return root


def test_the_run_says_where_a_solution_is_specialised_and_counts_its_workloads_only(
    recorded: Path,
) -> None:
    page = (recorded / "page.txt").read_text()

    assert "right on unseen sizes: INCORRECT_NUMERICAL at n=" in page
    assert "3 of 3 jobs passed" in page


@pytest.mark.parametrize("command", ["summary", "best"])
def test_reports_say_where_a_solution_is_specialised(recorded: Path, command: str) -> None:
    page = call("report", command, "--local", recorded).stdout
    document = call("report", command, "--local", recorded, "--json").stdout

    assert "specialised" in page
    assert "INCORRECT_NUMERICAL at n=" in page
    assert "INCORRECT_NUMERICAL at n=" in document


def test_pages_of_the_site_mark_it_and_list_what_was_tried(recorded: Path, tmp_path: Path) -> None:
    call("report", "html", "--local", recorded, tmp_path / "site")

    pages = {each.name: each.read_text() for each in (tmp_path / "site").rglob("*.html")}
    marked = [name for name, text in pages.items() if ">specialised</span>" in text]
    assert sorted(marked) == ["increment.html", "index.html", "leaderboard.html", "solutions.html"]
    assert "came sizes that no workload of the run has" in pages["right.html"]


def test_show_lists_what_was_tried(recorded: Path) -> None:
    solution_page = call("show", "right", "--local", recorded).stdout
    trace_id = next(
        trace["evaluation"]["provenance"]["trace_id"]
        for file in recorded.glob("traces/**/*.jsonl")
        for trace in map(json.loads, file.read_text().splitlines())
        if trace["evaluation"].get("unseen", {}).get("specialised")
    )

    trace_page = call("show", trace_id, "--local", recorded).stdout

    assert "INCORRECT_NUMERICAL at n=" in solution_page
    assert "unseen 1" in trace_page
    assert "wrong" in trace_page
