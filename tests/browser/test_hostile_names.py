"""Names, logs and sources come from other people: none becomes a part of a page, or leaves the folder."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

KINDS = ("definitions", "solutions", "models")
SAFE = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,90}")


class Tags(HTMLParser):
    """Every tag of a page, with what it carries."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))


@pytest.fixture(scope="session")
def hostile_site(hostile_dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from click.testing import CliRunner

    from flashinfer_bench.cli.main import cli

    folder = tmp_path_factory.mktemp("hostile-site") / "site"
    done = CliRunner().invoke(cli, ["report", "html", str(folder), "--local", str(hostile_dataset)])
    assert done.exit_code == 0, done.output
    return folder


def pages_of(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def test_file_names_are_safe_and_none_is_lost(hostile_site: Path) -> None:
    files = [path for path in hostile_site.rglob("*") if path.is_file() and path.name[0] != "."]

    unsafe = [path.name for path in files if SAFE.fullmatch(path.name) is None]

    assert unsafe == []
    for kind in KINDS:
        names = [path.name.lower() for path in (hostile_site / kind).iterdir()]
        assert len(set(names)) == len(names) == 12
    assert {path.parent for path in hostile_site.parent.rglob("*")} <= {
        hostile_site.parent,
        hostile_site,
        *(hostile_site / each for each in ("data", "definitions", "solutions", "models")),
    }


def test_pages_hold_their_own_scripts_and_no_handlers(hostile_site: Path) -> None:
    for path in pages_of(hostile_site):
        tags = Tags()
        tags.feed(path.read_text(encoding="utf-8"))

        scripts = [carried for tag, carried in tags.found if tag == "script"]

        assert [each["src"] in {"site.js", "../site.js"} for each in scripts] == [True], path
        assert not any(name.startswith("on") for _, carried in tags.found for name in carried), path
        assert not any(tag in {"img", "iframe", "object", "b1"} for tag, _ in tags.found), path
        links = [carried["href"] or "" for tag, carried in tags.found if tag == "a"]
        assert all(re.fullmatch(r"(\.\./)?[a-z0-9_./-]*(#.*)?", link) for link in links), path


def test_templates_fill_in_names_and_do_not_run_them(hostile_site: Path) -> None:
    text = (hostile_site / "definitions.html").read_text(encoding="utf-8")

    assert "{{ 7 * 7 }}" in text
    assert "49" not in re.sub(r"[0-9a-f]{16}", "", text)


def test_names_sources_and_logs_show_what_turns_the_direction_of_writing(
    hostile_site: Path,
) -> None:
    for path in (
        *(hostile_site / "solutions").iterdir(),
        *(hostile_site / "data").glob("sources-*"),
    ):
        shown = re.sub(r"<h1>.*?</h1>", "", path.read_text(encoding="utf-8"))

        assert "⟦U+202E⟧" in shown or "\\u27e6U+202E" in shown
    for path in (*pages_of(hostile_site), *(hostile_site / "data").iterdir()):
        text = path.read_text(encoding="utf-8")
        assert "\u202e" not in text
        assert "\x1b" not in text
        assert "\\u202e" not in text
        assert "\\u001b" not in text


def test_no_page_does_what_a_name_says(hostile_site: Path, visitor_to) -> None:
    visitor = visitor_to(hostile_site)
    of_each = [name for kind in KINDS for name in sorted((hostile_site / kind).iterdir())[::3]]

    for path in (*hostile_site.glob("*.html"), *of_each):
        page = visitor.go(path.relative_to(hostile_site).as_posix())
        assert page.evaluate("window.hacked") is None, path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_search_and_comparison_show_hostile_text_as_text(hostile_site: Path, visitor_to) -> None:
    page = visitor_to(hostile_site).go()

    page.get_by_role("combobox", name="Search").fill("<script>window")
    page.get_by_role("listbox", name="Found").get_by_role("option").first.wait_for()
    shown = page.get_by_role("listbox", name="Found").get_by_role("option").first.inner_text()
    page.keyboard.press("Enter")
    page.wait_for_url("**/definitions/**")

    assert "<script>window.hacked = 1</script>" in shown
    assert page.evaluate("window.hacked") is None
    assert page.locator("h1").inner_text() == "<script>window.hacked = 1</script>"
