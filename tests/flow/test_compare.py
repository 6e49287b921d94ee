"""`report compare` and `report history` on datasets on disk and in git: what a CI job would run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flashinfer_bench.cli.main import cli

RECORDED = Path(__file__).parents[1] / "golden" / "runs"
TRACES = "traces/cpp/rmsnorm/rmsnorm_h4096.jsonl"
LINES_OF_TEN_NIGHTS = 30


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A dataset in git: tagged after ten nights, then six nights of slower code."""
    folder = tmp_path / "repository" / "data"
    shutil.copytree(RECORDED, folder)
    traces = folder / TRACES
    every = traces.read_text().splitlines(keepends=True)
    traces.write_text("".join(every[:LINES_OF_TEN_NIGHTS]))
    _git(folder.parent, "init", "-q")
    _commit(folder.parent, "Ten nights")
    _git(folder.parent, "tag", "ten")
    traces.write_text("".join(every))
    _commit(folder.parent, "Sixteen nights")
    return folder


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True)


def _commit(folder: Path, message: str) -> None:
    _git(folder, "add", "-A")
    author = ["-c", "user.name=tester", "-c", "user.email=tester@example.org"]
    _git(folder, *author, "commit", "-qm", message)


def _say(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["report", *map(str, arguments)])


def test_a_regression_between_two_revisions_ends_a_ci_job(dataset: Path, tmp_path: Path) -> None:
    junit = tmp_path / "gates.xml"

    said = _say(
        "compare", f"{dataset}@ten", dataset, "--fail-on", "slower>3%", "--junit", junit, "--json"
    )

    comparison = json.loads(said.stdout)["comparison"]
    cpp = [job for job in comparison["jobs"] if job["place"]["solution"] == "rmsnorm_h4096_cpp"]
    assert said.exit_code == 1
    assert {job["verdict"] for job in cpp} == {"SLOWER"}
    assert {(job["old_runs"], job["new_runs"], job["source"]) for job in cpp} == {(10, 6, "runs")}
    assert "<failure" in junit.read_text()
    assert "gate slower>3% is broken: rmsnorm_h4096 / rmsnorm_h4096_cpp" in said.stderr


def test_junit_says_why_a_job_fails_and_the_page_why_nothing_else_does(
    dataset: Path, tmp_path: Path
) -> None:
    junit = tmp_path / "gates.xml"
    traces = dataset / TRACES
    trace = json.loads(traces.read_text().splitlines()[-1])
    trace["evaluation"] |= {
        "status": "RUNTIME_ERROR",
        "log": "Traceback (most recent call last):\n  File 'k.py', line 2\nValueError: bad size",
        "performance": None,
        "correctness": None,
        "timestamp": "2027-01-01T00:00:00+00:00",
    }
    with traces.open("a") as file:
        file.write(json.dumps(trace) + "\n")

    said = _say("compare", f"{dataset}@ten", dataset, "--junit", junit, "--fail-on", "slower>90%")

    assert "BROKE: PASSED -&gt; RUNTIME_ERROR: returns: ValueError: bad size" in junit.read_text()
    assert said.exit_code == 0
    assert "1 job BROKE, which no gate asks about: exit code 0, but failed in JUnit" in said.stdout


def test_the_file_of_another_run_does_not_speak_for_one_that_ended_early(
    dataset: Path, tmp_path: Path
) -> None:
    junit = tmp_path / "gates.xml"
    junit.write_text("<testsuites/>")

    said = _say("compare", dataset, dataset, "--definitions", "nosuch", "--junit", junit)

    assert said.exit_code != 0
    assert not junit.exists()


def test_a_file_that_cannot_be_written_is_named_and_the_comparison_is_shown(dataset: Path) -> None:
    said = _say("compare", dataset, dataset, "--junit", "/dev/full")

    assert said.exit_code == 4
    assert "cannot write /dev/full: No space left on device" in said.stderr
    assert "SAME" in said.stdout


def test_the_other_way_round_it_is_faster_and_nothing_fails(dataset: Path) -> None:
    said = _say("compare", dataset, f"{dataset}@ten", "--fail-on", "slower>3%")

    assert said.exit_code == 0
    assert "FASTER" in said.stdout


def test_a_revision_leaves_the_working_tree_alone(dataset: Path) -> None:
    before = (dataset / TRACES).read_text()

    _say("compare", f"{dataset}@HEAD~1", f"{dataset}@HEAD")

    assert (dataset / TRACES).read_text() == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{data}@nowhere", "{data}", "git has no such version"),
        ("{data}", "rmsnorm_h4096_cpp", "compare two of a kind"),
        ("rmsnorm_h4096_cp", "AMD EPYC", "did you mean 'rmsnorm_h4096_cpp'?"),
        ("rmsnorm_h4096_cpp", "AMD EPYC", "are not of a kind"),
        ("run:night-99", "run:night-1", "no run named 'night-99'"),
        ("{data}", "{tmp}@HEAD", "not a git repository"),
        ("{data}", "{tmp}", "no dataset there: neither definitions nor"),
        ("{data}", "{data}/traces", "traces; the dataset is {data}"),
    ],
)
def test_what_cannot_be_compared_is_one_clear_error(
    dataset: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    names = {"data": dataset, "tmp": tmp_path / "empty"}
    names["tmp"].mkdir()

    said = _say("compare", old.format(**names), new.format(**names), "--local", dataset)

    assert said.exit_code == 2
    assert message.format(**names) in said.stderr
    assert said.stderr.count("\n") == 1


def test_a_gate_that_is_none_is_refused_before_anything_is_read(dataset: Path) -> None:
    said = _say("compare", dataset, dataset, "--fail-on", "slower>=3%")

    assert said.exit_code == 2
    assert (
        "slower>3% (any percentage), failed, missing, undecided or changed-definition"
        in said.stderr
    )


def test_json_and_markdown_exclude_each_other(dataset: Path) -> None:
    said = _say("compare", dataset, dataset, "--json", "--markdown")

    assert (said.exit_code, said.stderr) == (2, "error: --json and --markdown: choose one\n")


def test_a_report_cannot_be_written_into_a_folder_that_is_not_there(dataset: Path) -> None:
    said = _say("compare", dataset, dataset, "--junit", dataset / "none" / "gates.xml")

    assert said.exit_code == 2
    assert "its folder does not exist" in said.stderr


def test_a_report_is_a_file_and_no_folder(dataset: Path) -> None:
    said = _say("compare", dataset, dataset, "--junit", dataset)

    assert said.exit_code == 2
    assert "is a folder; name a file in it" in said.stderr


def test_definitions_narrow_a_comparison_and_unknown_ones_are_refused(dataset: Path) -> None:
    narrowed = _say("compare", dataset, dataset, "--definitions", "rms*", "--json")
    refused = _say("compare", dataset, dataset, "--definitions", "gemm*")

    assert len(json.loads(narrowed.stdout)["comparison"]["jobs"]) == 6
    assert refused.exit_code == 2


def test_history_names_the_run_that_became_slower(dataset: Path) -> None:
    said = _say("history", "rmsnorm_h4096_cpp", "--local", dataset, "--json")

    (history,) = json.loads(said.stdout)["histories"]
    (change,) = history["series"][0]["changes"]
    assert history["runs"][change["at"]]["run"] == "night-11"
    assert history["runs"][change["at"]]["has_new_code"]
    assert change["verdict"] == "SLOWER"


def test_a_solution_nobody_knows_has_no_history(dataset: Path) -> None:
    said = _say("history", "rmsnorm_h4096_cp", "--local", dataset)

    assert said.exit_code == 2
    assert "did you mean 'rmsnorm_h4096_cpp'?" in said.stderr


def test_an_unknown_score_is_one_clear_error(dataset: Path) -> None:
    said = _say("summary", "--local", dataset, "--score", "best")

    assert said.exit_code == 2
    assert "'best' is no score" in said.stderr


def test_folders_and_revisions_may_hold_an_at_sign(dataset: Path) -> None:
    odd = dataset.rename(dataset.with_name("data@night"))
    _commit(odd.parent, "Renamed")

    said = _say("compare", f"{odd}@HEAD@{{0}}", odd)

    assert said.exit_code == 0
    assert "SAME: 1.00x over 6 jobs" in said.stdout


def test_a_revision_is_never_an_option_of_git(dataset: Path, tmp_path: Path) -> None:
    said = _say("compare", f"{dataset}@--output={tmp_path / 'taken'}", dataset)

    assert said.exit_code == 2
    assert "no revision of git begins with a hyphen" in said.stderr
    assert not (tmp_path / "taken").exists()
