"""A report keeps the keys that other tools read, and sorts findings where they belong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flashinfer_bench.data import rules
from flashinfer_bench.data.rules import DatasetReport, Finding, Level, ReportConfig
from flashinfer_bench.errors import DatasetError, UnknownNameError, UsageError
from tests.unit.data.rules.datasets import DEFINITION, NAME, Dataset
from tests.unit.data.rules.test_rules import CASES

FOREIGN = {
    "config": {
        "dataset": "/d",
        "checks": ["layout", "definition"],
        "disable_gpu": True,
        "op_types": [],
        "definitions": ["d1"],
    },
    "definitions": {
        "d1": {
            "status": "warning",
            "layout": {"status": "ok", "messages": []},
            "definition": {
                "status": "warning",
                "messages": [{"level": "warning", "message": "axis 'n' without description"}],
            },
            "workload": None,
            "solution": None,
            "trace": None,
            "baseline": None,
            "benchmark": None,
        }
    },
}


def config(**changes: object) -> ReportConfig:
    told = {"dataset": "/d", "checks": [*rules.DEFAULT_CHECKS], "disable_gpu": False}
    return ReportConfig.model_validate(told | {"op_types": [], "definitions": []} | changes)


def finding(code: str, level: Level = Level.ERROR, definition: str | None = "d1") -> Finding:
    return Finding(code=code, level=level, message="m", definition=definition)


def test_a_report_of_another_program_is_read() -> None:
    report = DatasetReport.model_validate(FOREIGN)

    assert report.status == "warning"
    assert report.count() == {Level.ERROR: 0, Level.WARNING: 1, Level.INFO: 0}


def test_our_reports_have_its_keys() -> None:
    told = rules.assemble(config(), ["d1"], [finding("WKL-07")]).to_dict()

    assert FOREIGN["config"].keys() == told["config"].keys()
    assert FOREIGN["definitions"]["d1"].keys() <= told["definitions"]["d1"].keys() | {"profile"}
    (message,) = told["definitions"]["d1"]["workload"]["messages"]
    assert message == {"level": "error", "message": "m", "code": "WKL-07"}


def test_a_category_that_was_not_checked_is_null() -> None:
    report = rules.assemble(config(checks=["layout"]), ["d1"], [finding("WKL-07")])

    assert report.definitions["d1"].workload is None
    assert report.status == "ok"


def test_findings_of_no_definition_are_the_datasets() -> None:
    findings = [finding("SOL-07", definition=None), finding("SOL-02", definition="unheard of")]

    report = rules.assemble(config(), ["d1"], findings)

    assert report.dataset is not None
    assert report.dataset.status == "error"
    assert report.definitions["d1"].status == "ok"


def test_a_choice_of_definitions_leaves_the_rest_out() -> None:
    findings = [finding("WKL-07", definition="d2"), finding("SOL-07", definition=None)]

    report = rules.assemble(config(definitions=["d1"]), ["d1"], findings)

    assert (report.dataset, list(report.definitions), report.status) == (None, ["d1"], "ok")


def test_the_gravest_come_first() -> None:
    findings = [finding("WKL-27", Level.INFO), finding("WKL-12", Level.WARNING), finding("WKL-07")]

    part = rules.assemble(config(), ["d1"], findings).definitions["d1"]

    assert part.workload is not None
    assert [message.code for message in part.workload.messages] == ["WKL-07", "WKL-12", "WKL-27"]


@pytest.mark.parametrize(
    ("level", "is_good", "is_good_strictly"),
    [(Level.INFO, True, True), (Level.WARNING, True, False), (Level.ERROR, False, False)],
)
def test_what_passes_for_good(level: Level, is_good: bool, is_good_strictly: bool) -> None:
    report = rules.assemble(config(), ["d1"], [finding("WKL-07", level)])

    assert (report.is_good(), report.is_good(strict=True)) == (is_good, is_good_strictly)


def test_names_in_filters_must_exist(good: Dataset) -> None:
    dataset = rules.take(good.root)

    with pytest.raises(UnknownNameError, match="did you mean 'reduce'"):
        rules.select(dataset, ["reduc"], [])
    with pytest.raises(UnknownNameError, match=f"did you mean '{NAME}'"):
        rules.select(dataset, [], ["scaled_rowsum"])
    with pytest.raises(UsageError, match="did you mean 'layout'"):
        rules.require_checks(["layot"])


def test_filters_by_op_type_and_by_name_add_up(good: Dataset) -> None:
    other = json.loads(good.read(DEFINITION)) | {"name": "other", "op_type": "sum"}
    third = json.loads(good.read(DEFINITION)) | {"name": "third", "op_type": "third"}
    good.write("definitions/sum/other.json", json.dumps(other))
    good.write("definitions/third/third.json", json.dumps(third))
    dataset = rules.take(good.root)

    assert rules.select(dataset, ["sum"], [NAME]) == ["other", NAME]
    assert rules.select(dataset, [], []) == ["other", NAME, "third"]


def test_a_definition_that_cannot_be_read_is_in_the_report(good: Dataset) -> None:
    CASES["DEF-01"](good)
    dataset = rules.take(good.root)

    report = rules.assemble(config(), rules.select(dataset, [], []), rules.check(dataset))

    assert report.definitions[NAME].status == "error"


def test_a_report_survives_being_written(tmp_path: Path) -> None:
    report = rules.assemble(config(), ["d1"], [finding("WKL-07")], ["moved"])
    path = tmp_path / "report.json"
    path.write_text(report.to_json())

    assert rules.read_report(path) == report


def test_what_is_no_report_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text('{"definitions": {}}')

    with pytest.raises(DatasetError, match=r"DatasetReport\.config: is required"):
        rules.read_report(path)
