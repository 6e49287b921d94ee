"""Commands that wings bring: real distributions on the path, found by their entry points, run in a fresh process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import flashinfer_bench
from flashinfer_bench.cli import wings
from flashinfer_bench.cli.main import COMMANDS, ORDER, cli

PACKAGE = Path(flashinfer_bench.__file__).parent
REPOSITORY = Path(__file__).parents[3]
ENTRY_POINTS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["entry-points"]
HELLO = '''"""Greet a kernel.

Whoever it is.
"""
import click

@click.command()
@click.argument("name")
def hello(name):
    """Greet a kernel."""
    click.echo(f"hello {name}")
'''


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    return tmp_path / "site"


def install(
    place: Path,
    name: str,
    entries: dict[str, dict[str, str]],
    modules: dict[str, str] | None = None,
) -> None:
    """Lay a distribution out as an installer does: its package, and its metadata beside it."""
    package = name.replace("-", "_")
    if modules is not None:
        (place / package).mkdir()
        for module, source in {"__init__": "", **modules}.items():
            (place / package / f"{module}.py").write_text(source)
    metadata = place / f"{package}-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\nSummary: Kernels are people\n"
    )
    lines = [
        line
        for group, each in entries.items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in each.items()), "")
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(place), "COLUMNS": "120"}
    command = [sys.executable, "-m", "flashinfer_bench", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def said(place: Path, *arguments: str) -> str:
    done = run(place, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wings_command_is_listed_and_runs(place: Path) -> None:
    entries = {wings.GROUP: {"hello": "tiny_wing.commands:hello"}}
    install(place, "tiny-wing", entries, {"commands": HELLO})

    assert re.search(r"^  hello +Greet a kernel\. \(tiny-wing\)$", said(place, "--help"), re.M)
    assert said(place, "hello", "softmax") == "hello softmax\n"


def test_the_overview_loads_nothing_of_a_wing(place: Path) -> None:
    entries = {wings.GROUP: {"hello": "tiny_wing.commands:hello"}}
    install(place, "tiny-wing", entries, {"commands": '"""Say more."""\nraise SystemExit("run")\n'})

    assert "  hello" in said(place, "--help")


@pytest.mark.parametrize("group", ["import", "export", "decompose", "report", "kernelbench"])
def test_a_wing_brings_commands_below_others(place: Path, group: str) -> None:
    entries = {f"{wings.GROUP}.{group}": {"hello": "tiny_wing.commands:hello"}}
    install(place, "tiny-wing", entries, {"commands": HELLO})

    assert re.search(
        r"^  hello +Greet a kernel\. \(tiny-wing\)$", said(place, group, "--help"), re.M
    )
    assert said(place, group, "hello", "softmax") == "hello softmax\n"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import no_such_package\n", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("raise RuntimeError('of no use')\n", "RuntimeError: of no use"),
        ("def hello(:\n", "SyntaxError: "),
        ("", "AttributeError: "),
        ("hello = 3\n", "hurt_wing.commands:hello is no click command"),
    ],
)
def test_a_broken_wing_is_one_clear_line(place: Path, source: str, why: str) -> None:
    entries = {wings.GROUP: {"hello": "hurt_wing.commands:hello"}}
    install(place, "hurt-wing", entries, {"commands": source})

    done = run(place, "hello", "softmax")

    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"error: the command 'hello' is brought by hurt-wing and cannot be loaded: {why}"
    )
    assert line.endswith("; update it, or `pip uninstall hurt-wing`")


def test_a_broken_wing_leaves_all_other_commands_alone(place: Path) -> None:
    groups = (wings.GROUP, f"{wings.GROUP}.import")
    entries = {group: {"hello": "hurt_wing.commands:hello"} for group in groups}
    install(place, "hurt-wing", entries, {"__init__": "import no_such_package\n"})

    assert "\n  hello " in said(place, "--help")
    assert "\n  hello " in said(place, "import", "--help")
    assert "Usage: " in said(place, "import", "kernelbench", "--help")
    assert said(place, "schema").startswith("{")


def test_without_a_docstring_the_overview_says_what_the_distribution_does(place: Path) -> None:
    entries = {wings.GROUP: {"hello": "tiny_wing.commands:hello", "lost": "no_such_module:it"}}
    install(place, "tiny-wing", entries, {"commands": "import click\n"})

    overview = said(place, "--help")

    assert re.search(r"^  hello +Kernels are people \(tiny-wing\)$", overview, re.M)
    assert re.search(r"^  lost +Kernels are people \(tiny-wing\)$", overview, re.M)


@pytest.mark.parametrize("name", ["schema", "kernelbench"])
def test_a_wing_cannot_take_the_place_of_a_command_of_ours(place: Path, name: str) -> None:
    entries = {wings.GROUP: {name: "tiny_wing.commands:hello"}}
    install(place, "tiny-wing", entries, {"commands": HELLO})

    assert "tiny-wing" not in said(place, "--help")
    assert "Greet" not in said(place, name, "--help")


def test_two_wings_with_one_command_are_told_apart_by_nobody(place: Path) -> None:
    entries = {wings.GROUP: {"hello": "tiny_wing.commands:hello"}}
    install(place, "tiny-wing", entries, {"commands": HELLO})
    install(place, "vast-wing", entries)

    done = run(place, "hello", "softmax")

    assert done.returncode == 2
    assert done.stderr == (
        "error: tiny-wing and vast-wing both bring a command 'hello': uninstall one\n"
    )


def test_a_checkout_has_its_commands_however_old_the_installed_metadata_are(place: Path) -> None:
    install(place, "flashinfer-bench", {"console_scripts": {"old": "flashinfer_bench:old"}})

    overview = said(place, "--help")

    assert all(f"\n  {name} " in overview for name in ORDER)
    assert "Usage: " in said(place, "import", "kernelbench", "--help")


def test_what_is_installed_without_its_source_tree_asks_its_metadata(place: Path) -> None:
    install(place, "flashinfer-bench", ENTRY_POINTS)
    (place / "flashinfer_bench").symlink_to(PACKAGE)

    overview = said(place, "--help")

    assert all(f"\n  {name} " in overview for name in ORDER)
    assert "Usage: " in said(place, "export", "sol-execbench", "--help")


def test_code_that_is_newer_than_its_metadata_and_no_checkout_says_so(place: Path) -> None:
    install(place, "flashinfer-bench", {"console_scripts": {"old": "flashinfer_bench:old"}})
    (place / "flashinfer_bench").symlink_to(PACKAGE)

    done = run(place, "decompose", "model.py")

    assert done.returncode == 2
    assert f"No such command 'decompose': {wings.REMEDY}" in " ".join(done.stderr.split())
    assert "\n  decompose " not in said(place, "--help")
    assert said(place, "schema").startswith("{")


def test_a_source_tree_of_another_project_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "something-else"\n')
    assert wings._source_tree(tmp_path) is None

    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "pyproject.toml").write_text("[project\n")
    assert wings._source_tree(tmp_path / "other") is None
    assert wings._source_tree(tmp_path / "nowhere") is None


def test_what_stands_in_pyproject_is_what_there_is() -> None:
    groups = {name: each for name, each in ENTRY_POINTS.items() if name.startswith(wings.GROUP)}

    assert {*COMMANDS, *groups[wings.GROUP]} == set(ORDER)
    for group, entries in groups.items():
        found = {name: each.value for name, each in wings.brought(group).items() if each.is_ours}
        assert found == entries


@pytest.mark.parametrize(
    ("group", "name"),
    [
        (group, name)
        for group, entries in ENTRY_POINTS.items()
        if group.startswith(wings.GROUP)
        for name in entries
    ],
)
def test_the_first_line_of_our_wings_modules_is_what_their_commands_say(
    group: str, name: str
) -> None:
    command = wings.find(name, group)

    assert isinstance(command, click.Command)
    assert wings.brought(group)[name].summary == command.get_short_help_str(limit=1000)


def test_nobody_brings_what_is_no_command() -> None:
    assert wings.find("no-such-command") is None
    assert cli.get_command(click.Context(cli), "no-such-command") is None


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('"""Say more."""\n', "Say more."),
        ('# coding: utf-8\n\n"""Say more.\n\nMuch more.\n"""\n', "Say more."),
        ("r'''\nSay \"more\"'''\n", 'Say "more"'),
        ("'Say more.'\n", "Say more."),
        ("import click\n", ""),
        ("", ""),
    ],
)
def test_the_first_line_of_a_docstring_is_found_without_running_the_module(
    source: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "with_a_docstring.py").write_text(source)

    assert wings._docstring_line("with_a_docstring") == line
