"""The numbers on the pages are those that the other reports print of the same datasets as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flashinfer_bench.cli.main import cli
from flashinfer_bench.report.page.leaderboard import OFFERED
from flashinfer_bench.report.page.names import slug
from flashinfer_bench.text.numbers import latency_text, speedup_text
from tests.golden.tables import Cell, Tables

REPOSITORY = Path(__file__).parents[2]
DATASETS = {
    "golden": [Path(__file__).parent / "dataset"],
    "recorded": [REPOSITORY / "examples" / "dataset", REPOSITORY / "docs" / "recorded"],
}


class Said:
    """A dataset as a site, and as the other reports say it."""

    def __init__(self, folder: Path, roots: list[Path]) -> None:
        self._local = [word for root in roots for word in ("--local", str(root))]
        self.site = folder / "site"
        done = CliRunner().invoke(cli, ["report", "html", str(self.site), *self._local])
        assert done.exit_code == 0, done.output

    def json(self, *words: str) -> Any:
        """Ask another report."""
        done = CliRunner().invoke(cli, ["report", *words, *self._local, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def tables(self, page: str) -> dict[str, list[dict[str, Cell]]]:
        """Read the tables of a page."""
        return Tables((self.site / page).read_text(encoding="utf-8")).found


@pytest.fixture(scope="module", params=DATASETS)
def said(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Said:
    return Said(tmp_path_factory.mktemp(request.param), DATASETS[request.param])


LEFT_OUT = dict.fromkeys(("speedup (95%)", "latency", "abs error"), Cell("-", ""))
"""Columns in which no row of a page says anything are not there."""


def number(cell: Cell) -> float | None:
    return float(cell.value) if cell.value else None


def test_the_overview_counts_what_the_summary_counts(said: Said) -> None:
    summary = said.json("summary")["summary"]

    html = (said.site / "index.html").read_text(encoding="utf-8")
    facts = dict(re.findall(r"<dt>(\w+)</dt><dd>([\d,]+)</dd>", html))
    rows = said.tables("index.html")["t-machines"]

    assert int(facts["traces"]) == summary["totals"]["traces"]
    assert int(facts["failed"]) == summary["totals"]["failed"]
    assert {
        row["hardware"].text: {name: number(row[name]) for name in ("traces", "passed", "failed")}
        for row in rows
    } == {
        each["hardware"]: {name: each["totals"][name] for name in ("traces", "passed", "failed")}
        for each in summary["by_hardware"]
    }
    left = sum(map(int, re.findall(r"<li>(\d+) traces? (?:that|of|on)", html)))
    assert left == sum(summary["left_out"].values())


def test_the_best_solutions_are_those_of_report_best_to_the_last_digit(said: Said) -> None:
    for group in said.json("best")["by_hardware"]:
        hardware = slug(group["hardware"])
        overview = said.tables("index.html").get(f"t-best-{hardware}", [])
        assert [row["definition"].text for row in overview] == [
            best["definition"] for best in group["best"]
        ]
        for best, row in zip(group["best"], overview, strict=True):
            page = said.tables(f"definitions/{slug(best['definition'])}.html")[f"t-{hardware}"]
            (here,) = (each for each in page if each["solution"].text.endswith(" best"))
            listed = next(
                each
                for each in said.tables("definitions.html")["t-definitions"]
                if each["definition"].text == best["definition"]
                and each["hardware"].text == group["hardware"]
            )

            for shown in (LEFT_OUT | each for each in (row, here, listed)):
                assert number(shown["speedup (95%)"]) == best["speedup"]
                assert number(shown["latency"]) == best["latency_ms"]
                assert shown["latency"].text == latency_text(best["latency_ms"])
                assert shown["speedup (95%)"].text == speedup_text(
                    best["speedup"], best["speedup_interval"]
                )
            for shown in (LEFT_OUT | row, LEFT_OUT | here):
                assert number(shown["abs error"]) == best["max_absolute_error"]
                assert shown["workloads"].text == (
                    f"{best['workloads_passed']}/{best['workloads_attempted']}"
                )
                broken = number(shown["violations"]) if "violations" in shown else 0
                assert broken == best["violations"]
            assert here["solution"].text.removesuffix(" best") == best["solution"]


@pytest.mark.parametrize("score", [name for name, _ in OFFERED])
def test_the_leaderboard_ranks_as_the_summary_with_that_score(said: Said, score: str) -> None:
    tables = said.tables("leaderboard.html")
    place = [name for name, _ in OFFERED].index(score) + 1
    shown = {
        (name.removeprefix(f"t-{place}-").partition("-")[2], row["author"].text): (
            row["rank"].text,
            number(row[score] if score in row else row[f"speedup, {score}"]),
        )
        for name, rows in tables.items()
        if name.startswith(f"t-{place}-")
        for row in rows
        if (row[score] if score in row else row[f"speedup, {score}"]).value
    }

    summary = said.json("summary", "--score", score)["summary"]

    assert shown == {
        (slug(group["hardware"]), line["author"]): (line["place"], line["score"])
        for group in summary["by_hardware"]
        for table in group["scores"] or plain(group["rankings"])
        for line in table["lines"]
    }


def plain(rankings: dict[str, Any]) -> list[dict[str, Any]]:
    """The plain summary's ranking, in the words of a score's."""
    return [
        {"lines": [{**line, "score": line["avg_speedup"]} for line in rankings[name]]}
        for name in ("by_baseline", "by_reference")
    ]


@pytest.mark.parametrize("said", ["recorded"], indirect=True)
def test_models_are_worth_what_report_model_says(said: Said) -> None:
    for model in said.json("model")["models"]:
        name = f"{model['framework']}/{model['model']}"
        tables = said.tables(f"models/{slug(name)}.html")
        listed = next(
            row
            for row in said.tables("models.html")["t-models"]
            if (row["model"].text, row["hardware"].text) == (model["model"], model["hardware"])
        )

        rows = tables.get(f"t-{slug(model['hardware'])}", [])

        assert number(listed["by references"]) == (model["before_ms"] or None)
        assert number(listed["with the best"]) == (model["after_ms"] or None)
        assert number(listed["speedup (95%)"]) == model["speedup"]
        for kernel, row in zip(model["kernels"], rows, strict=True):
            assert row["kernel"].text == kernel["kernel"]
            assert number(row["share before"]) == kernel["share"]
            assert number(row["share after"]) == kernel["share_after"]
            assert number(row["reference"]) == kernel["reference_ms"]
            assert number(row["twice as fast"]) == kernel["if_twice_as_fast"]
            assert number(row["calls"]) == kernel["count"]
