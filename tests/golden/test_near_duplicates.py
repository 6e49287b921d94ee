"""A solution that is another one with new names is named wherever that other one is shown."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from flashinfer_bench import TraceSet
from flashinfer_bench.cli.main import cli

BUNDLED = Path(__file__).parents[2] / "examples" / "dataset"
ORIGINAL, RENAMED = "rmsnorm_h4096_triton", "rmsnorm_h4096_renamed"


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    root = tmp_path / "dataset"
    shutil.copytree(BUNDLED, root, ignore=shutil.ignore_patterns("traces"))
    original = TraceSet.from_path(BUNDLED).get_solution(ORIGINAL)
    assert original is not None
    (source,) = original.sources
    document = json.loads(original.model_dump_json(exclude_none=True)) | {"name": RENAMED}
    document["sources"][0]["content"] = source.content.replace("hidden_states", "tokens")
    file = root / "solutions" / "other" / "rmsnorm" / "rmsnorm_h4096" / f"{RENAMED}.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(document))
    return root


def output(*words: str) -> str:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_show_names_it(dataset: Path) -> None:
    page = output("show", ORIGINAL, "--local", str(dataset))
    document = json.loads(output("show", RENAMED, "--local", str(dataset), "--json"))

    assert f"{RENAMED} (100%)" in page
    assert document["shown"][0]["near_duplicates"] == {ORIGINAL: 1.0}


def test_its_page_links_to_the_other(dataset: Path, tmp_path: Path) -> None:
    output("report", "html", str(tmp_path / "site"), "--local", str(dataset))

    page = (tmp_path / "site" / "solutions" / f"{ORIGINAL}.html").read_text()
    lonely = (tmp_path / "site" / "solutions" / "rmsnorm_h4096_cpp.html").read_text()
    assert f'href="../solutions/{RENAMED}.html"' in page[: page.index("</dl>")]
    assert "near-duplicates" not in lonely
