"""What `hub pull` and `hub status` say of a repository on a local server that speaks the hub's API."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flashinfer_bench.cli.main import cli
from tests.flow.hub_server import HubServer

pytest.importorskip("huggingface_hub", reason="pulling needs huggingface_hub")

HERE = Path(__file__).parent
NAME = "org/kernels"
Prepare = Callable[[], None]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A hub that has the recorded definitions, and a cache that is empty."""
    shutil.copytree(HERE / "dataset" / "definitions", tmp_path / "published" / "definitions")
    server = HubServer(NAME)
    server.publish(tmp_path / "published")
    server.start()
    monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    yield server
    server.stop()


def say(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["hub", *arguments])


def nothing(_: HubServer, __: Path) -> None:
    """Leave the cache empty."""


def pulled(_: HubServer, __: Path) -> None:
    """Pull once."""
    assert say("pull", NAME).exit_code == 0


def pulled_and_published_again(hub: HubServer, tmp_path: Path) -> None:
    """Pull once, and let the hub have something newer then."""
    pulled(hub, tmp_path)
    newer = Path(shutil.copytree(tmp_path / "published", tmp_path / "newer"))
    (newer / "README.md").write_text("new\n")
    hub.publish(newer)


def pulled_and_unreachable(hub: HubServer, tmp_path: Path) -> None:
    """Pull once, and let the hub answer no more."""
    pulled(hub, tmp_path)
    hub.status = 503


PAGES = {
    "pull.txt": (0, nothing, ["pull", NAME]),
    "pull.json": (0, nothing, ["pull", NAME, "--json"]),
    "pull-unreachable.txt": (0, pulled_and_unreachable, ["pull", NAME]),
    "pull-unknown.txt": (2, nothing, ["pull", "org/unknown"]),
    "pull-revision.txt": (2, nothing, ["pull", NAME, "--revision", "v9"]),
    "status-none.txt": (0, nothing, ["status", NAME]),
    "status.txt": (0, pulled, ["status", NAME]),
    "status.json": (0, pulled, ["status", NAME, "--json"]),
    "status-newer.txt": (0, pulled_and_published_again, ["status", NAME]),
    "status-unreachable.txt": (0, pulled_and_unreachable, ["status", NAME]),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_hub_commands_say_what_they_said(
    name: str, hub: HubServer, tmp_path: Path, compare: Callable[[str, str], None]
) -> None:
    exit_code, prepare, arguments = PAGES[name]
    prepare(hub, tmp_path)

    said = say(*arguments)

    assert said.exit_code == exit_code, said.output
    compare(f"hub-{name}", stable(said.output, hub, tmp_path))


def stable(text: str, hub: HubServer, folder: Path) -> str:
    """Leave out which port the server has, and where the cache lies."""
    return text.replace(hub.endpoint, "http://hub").replace(str(folder), "…")
