"""What `report html` writes of recorded traces, without a browser."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from markupsafe import escape

from flashinfer_bench.cli.main import cli
from flashinfer_bench.data import TraceSet
from flashinfer_bench.report.page.names import slug
from tests.golden.tables import Tables

RUNNER = CliRunner()


def write(folder: Path, dataset: Path, *options: str) -> Result:
    return RUNNER.invoke(cli, ["report", "html", str(folder), "--local", str(dataset), *options])


@pytest.fixture
def site(dataset: Path, tmp_path: Path) -> Path:
    done = write(tmp_path / "site", dataset)
    assert done.exit_code == 0, done.output
    return tmp_path / "site"


def text_of(html: str) -> str:
    """Take the tags out; a cell a word apart."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html.replace("<wbr>", "")))


def section(html: str, hardware: str) -> str:
    """The parts of a page that speak of one kind of hardware."""
    parts = re.findall(r'<section data-hardware="([^"]*)">(.*?)</section>', html, re.DOTALL)
    return text_of(" ".join(part for name, part in parts if name == hardware))


def test_the_same_traces_make_the_same_files(site: Path, dataset: Path, tmp_path: Path) -> None:
    write(tmp_path / "again", dataset)

    first, again = (
        {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*.*")
            if path.is_file()
        }
        for folder in (site, tmp_path / "again")
    )

    assert first == again


def test_it_ends_with_the_command_that_opens_the_page(dataset: Path, tmp_path: Path) -> None:
    done = write(tmp_path / "site", dataset)

    index = tmp_path / "site" / "index.html"
    assert done.stdout.splitlines()[-1] == f"  python3 -m webbrowser {index.as_uri()}"


def test_programs_are_told_where_it_lies(dataset: Path, tmp_path: Path) -> None:
    done = write(tmp_path / "site", dataset, "--json")

    files = [path for path in (tmp_path / "site").rglob("*.*") if path.is_file()]
    assert json.loads(done.stdout) == {
        "schema_version": 1,
        "exit_code": 0,
        "index": str(tmp_path / "site" / "index.html"),
        "files": len(files) - 1,
        "traces": 22,
    }


def test_a_folder_of_other_things_is_refused_with_one_line(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    done = write(tmp_path, dataset)

    assert done.exit_code == 2
    assert "notes.txt" in done.output
    assert "Traceback" not in done.output
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_hardware_is_never_mixed(site: Path) -> None:
    html = (site / "definitions" / "rmsnorm_h8.html").read_text()
    groups = re.findall(r'<section data-hardware="([^"]*)">', html)

    assert len(set(groups)) == len(groups) > 1
    for row in re.findall(
        r"<tr data-hardware=.*?</tr>", (site / "solutions.html").read_text(), re.S
    ):
        hardware = re.search(r'data-hardware="([^"]*)"', row)
        assert hardware is not None
        assert sum(name in text_of(row) for name in set(groups)) == 1
        assert hardware[1] in text_of(row)


def test_pages_say_what_the_terminal_says(site: Path, dataset: Path) -> None:
    said = RUNNER.invoke(cli, ["report", "best", "--local", str(dataset), "--json"]).stdout

    for group in json.loads(said)["by_hardware"]:
        shown = section((site / "index.html").read_text(), group["hardware"])
        for best in group["best"]:
            line = rf"{best['definition']} (?:[\d.]+x|-) (\([^)]*\) )?{best['solution']}"
            assert re.search(line, re.sub(r"\s+", " ", shown))
        for name, reason in group["none_qualifies"].items():
            assert f"{name} : {reason}" in shown


def test_no_column_is_empty_and_violations_have_one_where_there_are_any(site: Path) -> None:
    tables = {
        f"{page.relative_to(site)} {number}": table
        for page in site.rglob("*.html")
        for number, table in enumerate(
            re.findall(r"<table.*?</table>", page.read_text(), re.DOTALL)
        )
    }

    for place, table in tables.items():
        rows = [
            [
                re.sub(r"<(?!svg)[^>]+>", "", cell).strip()
                for cell in re.findall(cells, row, re.DOTALL)
            ]
            for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)
            if (cells := r"<td.*?</td>")
        ]
        columns = zip(*(row for row in rows if row), strict=True)
        assert all(any(column) for column in columns), place
    machines = next(each for each in tables.values() if 'id="t-machines"' in each)
    boards = [each for place, each in tables.items() if place.startswith("leaderboard.html")]
    assert ">violations<" in machines
    assert any(">violations<" in each for each in boards)


def test_failures_are_shown_with_their_logs(site: Path, dataset: Path) -> None:
    lines = [line for path in dataset.glob("traces/*/*/*.jsonl") for line in path.open()]
    failed = [trace for trace in map(json.loads, lines) if trace["evaluation"]["log"]]

    assert failed
    for trace in failed:
        html = (site / "solutions" / f"{slug(trace['solution'])}.html").read_text()
        assert trace["evaluation"]["status"] in html
        assert escape(trace["evaluation"]["log"]) in html


def test_what_does_not_count_is_marked_and_says_why(site: Path) -> None:
    pages = [path.read_text() for path in (site / "solutions").iterdir()]

    marks = {mark for page in pages for mark in re.findall(r'class="tag">([^<]*)<', page)}

    assert marks == {"interpreted", "older run"}
    assert all("the newest counts" in page for page in pages if ">older run<" in page)


def remeasured(dataset: Path, folder: Path, **performance: object) -> Path:
    """Copy the dataset with other figures of one solution."""
    copied = shutil.copytree(dataset, folder / "remeasured")
    file = copied / "traces" / "alice" / "gemm" / "gemm_n8.jsonl"
    traces = [json.loads(line) for line in file.read_text().splitlines()]
    for trace in traces:
        if trace["evaluation"]["performance"]:
            trace["evaluation"]["performance"] |= performance
    file.write_text("".join(f"{json.dumps(each)}\n" for each in traces))
    return copied


@pytest.mark.parametrize(
    ("column", "figure", "said"),
    [
        ("build", {"build_ms": 4321.0}, "4.32 s"),
        ("peak memory", {"peak_memory_bytes": 87_000_000}, "87 MB"),
    ],
)
def test_the_longest_build_and_the_most_memory_are_shown_where_the_latency_is(
    dataset: Path, tmp_path: Path, column: str, figure: dict[str, object], said: str
) -> None:
    write(tmp_path / "site", remeasured(dataset, tmp_path, **figure))

    for page in ("solutions/gemm_n8_alice.html", "definitions/gemm_n8.html"):
        text = text_of((tmp_path / "site" / page).read_text())
        assert column in text
        assert said in text


def test_what_became_faster_is_a_row_of_the_overview(dataset: Path, tmp_path: Path) -> None:
    """A day later than the baseline; in the dataset as it is, all were measured on one day."""
    mine = Path(shutil.copytree(dataset, tmp_path / "dataset"))
    for file in mine.glob("traces/*/*/rmsnorm_h8.jsonl"):
        file.write_text(re.sub("2026-01-02T1(?=[12])", "2026-01-03T1", file.read_text()))
    write(tmp_path / "before", dataset)
    write(tmp_path / "site", mine)
    html = (tmp_path / "site" / "index.html").read_text()

    rows = Tables(html).found[f"t-faster-{slug('NVIDIA H200')}"]

    assert ">What became faster<" in html
    assert ">What became faster<" not in (tmp_path / "before" / "index.html").read_text()
    assert [[cell.text for cell in row.values()] for row in rows] == [
        ["rmsnorm_h8", "1.33x", "rmsnorm_h8_alice", "alice", "2.67x", "1", "2026-01-03"],
        ["rmsnorm_h8", "4.00x", "rmsnorm_h8_bob", "bob", "8.00x", "1", "2026-01-03"],
    ]


def test_ties_memory_and_build_time_stand_beside_the_best(dataset: Path, tmp_path: Path) -> None:
    mine = Path(shutil.copytree(dataset, tmp_path / "dataset"))
    (file,) = mine.glob("traces/bob/*/gemm_n8.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    passed = [line for line in lines if line["evaluation"]["status"] == "PASSED"]
    for line in passed:
        line["evaluation"]["performance"] |= {"speedup_interval": [2.0, 9.0], "build_ms": 12_000}
        line["evaluation"]["performance"] |= {"peak_memory_bytes": 403_000_000}
    file.write_text("".join(json.dumps(line) + "\n" for line in passed))
    write(tmp_path / "site", mine)
    html = (tmp_path / "site" / "index.html").read_text()

    rows = Tables(html).found[f"t-best-{slug('NVIDIA H200')}"]

    (gemm,) = (row for row in rows if row["definition"].text == "gemm_n8")
    assert gemm["best solution"].text.split() == ["gemm_n8_bob", "tied"]
    assert (gemm["peak memory"].text, gemm["build"].text) == ("403 MB", "12.0 s")
    assert "another one's interval overlaps" in section(html, "NVIDIA H200")
    assert "another one's interval overlaps" not in section(html, "AMD EPYC")


def test_who_is_fastest_at_what_is_what_the_terminal_calls_best(site: Path, dataset: Path) -> None:
    said = RUNNER.invoke(cli, ["report", "best", "--local", str(dataset), "--json"]).stdout
    html = (site / "leaderboard.html").read_text()
    tables, names = Tables(html).found, ("definition", "author", "solution")

    assert ">Who is fastest at what<" in html

    for group in json.loads(said)["by_hardware"]:
        rows = tables.get(f"t-holders-{slug(group['hardware'])}", [])
        shown = [[row[name].text for name in names] for row in rows]
        assert shown == [[best[name] for name in names] for best in group["best"]]


def test_traces_of_code_that_was_replaced_are_marked(dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset, tmp_path / "later")
    solution = TraceSet.from_path(dataset).get_solution("gemm_n8_alice")
    assert solution is not None
    file = tmp_path / "later" / "traces" / "alice" / "gemm" / "gemm_n8.jsonl"
    newest = file.read_text().splitlines()[-1].replace('"v1-aaaa"', f'"{solution.hash()}"')
    file.write_text(file.read_text() + newest + "\n")

    write(tmp_path / "site", tmp_path / "later")

    html = (tmp_path / "site" / "solutions" / "gemm_n8_alice.html").read_text()
    assert html.count('class="tag">replaced code<') == 3 + 1
    assert html.count('class="tag">present<') == 1


def test_solutions_and_definitions_that_only_traces_know_have_pages(
    dataset: Path, tmp_path: Path
) -> None:
    shutil.copytree(dataset / "traces", tmp_path / "bare" / "traces")

    done = write(tmp_path / "site", tmp_path / "bare")

    assert done.exit_code == 0, done.output
    page = (tmp_path / "site" / "solutions" / "rmsnorm_h8_alice.html").read_text()
    assert "The dataset does not hold this solution" in page
    definition = (tmp_path / "site" / "definitions" / "rmsnorm_h8.html").read_text()
    assert "The dataset does not hold this definition" in definition


def test_solutions_of_a_definition_that_is_missing_lead_to_a_page(
    dataset: Path, tmp_path: Path
) -> None:
    shutil.copytree(dataset / "solutions", tmp_path / "bare" / "solutions")

    write(tmp_path / "site", tmp_path / "bare")

    pages = list((tmp_path / "site" / "solutions").iterdir())
    links = {link for page in pages for link in re.findall(r'href="([^"#]+)"', page.read_text())}
    assert pages
    assert all((pages[0].parent / link).exists() for link in links - {"data:,"})


def test_profiles_of_one_model_have_a_page_each_and_equal_ones_share_it(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "profiles" / "vLLM"
    folder.mkdir(parents=True)
    for name, count in {"decode": 3, "copy": 3, "prefill": 5}.items():
        kernels = [{"kernel": {"definition": "k"}, "count": count}]
        profile = {"model": "m", "framework": "vLLM", "kernels": kernels}
        (folder / f"{name}.json").write_text(json.dumps(profile))

    done = write(tmp_path / "site", tmp_path / "data")

    assert done.exit_code == 0, done.output
    pages = [page.read_text() for page in (tmp_path / "site" / "models").iterdir()]
    heads = {head for page in pages for head in re.findall("<h1>(.*)</h1>", page)}
    assert heads == {"m (copy)", "m (prefill)"}
    listed = text_of((tmp_path / "site" / "models.html").read_text())
    assert all(head in listed for head in heads)


def test_an_empty_dataset_is_a_site_too(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    done = write(tmp_path / "site", tmp_path / "empty")

    assert done.exit_code == 0, done.output
    assert "No traces yet" in (tmp_path / "site" / "index.html").read_text()


def test_the_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for path in (*site.rglob("*.html"), site / "site.css", site / "site.js"):
        text = path.read_text()
        assert not re.search(
            r"(?:src|href)=\"(?:https?:)?//|url\(|@import|fetch\(|XMLHttp", text
        ), path


def test_pages_show_what_cannot_be_seen_in_names_and_texts(dataset: Path, tmp_path: Path) -> None:
    odd = "a\u202eb\u200bc\u2066\x1b[31m\x9b"
    shown = "a⟦U+202E⟧b⟦U+200B⟧c⟦U+2066⟧⟦U+001B⟧[31m⟦U+009B⟧"
    mine = Path(shutil.copytree(dataset, tmp_path / "dataset"))
    file = next((mine / "definitions").rglob("*.json"))
    definition = json.loads(file.read_text())
    definition |= {"description": odd, "tags": [odd], "op_type": odd}
    file.write_text(json.dumps(definition))

    done = write(tmp_path / "site", mine)

    assert done.exit_code == 0, done.output
    files = [each for each in (tmp_path / "site").rglob("*") if each.suffix in {".html", ".js"}]
    texts = [each.read_text() for each in files if each.name != "site.js"]
    assert sum(shown in text for text in texts) >= 2  # its page, and the list
    assert json.dumps(shown)[1:-1] in (tmp_path / "site/data/search.js").read_text()
    for hidden in ("\u202e", "\u200b", "\x1b", "\x9b", "\\u202e", "\\u001b"):
        assert not any(hidden in text for text in texts), ascii(hidden)
