"""Datasets of the Hugging Face hub, pulled from a local server with the hub's own client."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flashinfer_bench.data import TraceSet
from tests.flow.hub_server import HubServer

pytest.importorskip("huggingface_hub", reason="pulling needs huggingface_hub")

REPOSITORY = Path(__file__).parents[2]
NAME = "org/kernels"
Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """One definition of the bundled dataset, with its workloads and one solution."""
    source, target = REPOSITORY / "examples" / "dataset", tmp_path / "published"
    for place in ("definitions/rmsnorm", "workloads/rmsnorm", "solutions/pytorch/rmsnorm"):
        shutil.copytree(source / place, target / place)
    return target


@pytest.fixture
def hub(published: Path) -> Iterator[HubServer]:
    server = HubServer(NAME)
    server.publish(published)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def call(hub: HubServer, tmp_path: Path) -> Call:
    """Run a command that knows no hub but the local one."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "HF_ENDPOINT": hub.endpoint,
            "HF_HUB_CACHE": str(tmp_path / "cache"),
            **variables,
        }
        command = [sys.executable, "-m", "flashinfer_bench", *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=200
        )

    return run


def pulled_folder(call: Call) -> Path:
    return Path(json.loads(call("hub", "pull", NAME, "--json").stdout)["pulled"]["folder"])


def test_what_is_pulled_is_what_was_published(call: Call, published: Path) -> None:
    folder = pulled_folder(call)

    assert TraceSet.from_path(folder).to_dict() == TraceSet.from_path(published).to_dict()
    assert TraceSet.from_path(folder).definitions


def test_a_second_pull_brings_only_what_is_new(
    call: Call, hub: HubServer, published: Path, tmp_path: Path
) -> None:
    pulled_folder(call)
    newer = Path(shutil.copytree(published, tmp_path / "newer"))
    (newer / "README.md").write_text("new")
    commit = hub.publish(newer)
    hub.requests.clear()

    folder = pulled_folder(call)

    brought = [each for each in hub.requests if each.startswith("GET /datasets/")]
    assert folder.name == commit
    assert [each.rpartition("/")[2] for each in brought] == ["README.md"]


def test_status_says_when_the_hub_has_something_newer(
    call: Call, hub: HubServer, published: Path, tmp_path: Path
) -> None:
    before = call("hub", "status", NAME).stdout
    commit = pulled_folder(call).name
    current = call("hub", "status", NAME).stdout
    newer = Path(shutil.copytree(published, tmp_path / "newer"))
    (newer / "README.md").write_text("new")
    newest = hub.publish(newer)

    after = call("hub", "status", NAME).stdout

    assert "not here" in before
    assert f"up to date at {commit[:12]}" in current
    assert f"the hub has {newest[:12]}" in after


def test_without_a_network_the_last_pull_is_used_and_said_to_be(call: Call, hub: HubServer) -> None:
    folder = pulled_folder(call)
    hub.shutdown()
    hub.server_close()

    done = call("report", "summary", "--hub", NAME, "--json", HF_ENDPOINT="http://127.0.0.1:9")

    assert done.returncode == 0, done.stderr
    assert f"http://127.0.0.1:9 is not reached: {NAME}" in done.stderr
    assert folder.name[:12] in done.stderr


def test_offline_asks_nothing(call: Call, hub: HubServer) -> None:
    pulled_folder(call)
    hub.requests.clear()

    done = call("hub", "pull", NAME, HF_HUB_OFFLINE="1")

    assert done.returncode == 0
    assert hub.requests == []


def test_a_commit_that_is_here_is_not_asked_for(call: Call, hub: HubServer) -> None:
    commit = pulled_folder(call).name
    hub.requests.clear()

    done = call("hub", "pull", NAME, "--revision", commit)

    assert done.returncode == 0
    assert commit in done.stdout
    assert hub.requests == []


@pytest.mark.parametrize(
    ("named", "code", "words"),
    [
        ("org/unknown", 2, "no dataset org/unknown on http://127.0.0.1"),
        (f"{NAME}@v9", 2, "no revision 'v9'"),
        ("kernels", 2, "write ORG/NAME or ORG/NAME@REVISION"),
    ],
)
def test_what_the_hub_lacks_is_one_clear_error(
    call: Call, named: str, code: int, words: str
) -> None:
    done = call("report", "best", "--hub", named)

    assert done.returncode == code
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_a_network_and_a_pull_the_remedy_is_named(call: Call) -> None:
    done = call("hub", "pull", NAME, HF_HUB_OFFLINE="1")

    assert done.returncode == 4
    assert "HF_HUB_OFFLINE is set" in done.stderr
    assert "flashinfer-bench hub pull" in done.stderr


def test_without_the_package_the_extra_is_named(call: Call, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "huggingface_hub.py").write_text("raise ImportError\n")

    done = call("hub", "pull", NAME, PYTHONPATH=str(tmp_path / "hidden"))

    assert done.returncode == 4
    assert "pip install 'flashinfer-bench[hub]'" in done.stderr


def test_the_cache_is_never_written_to(call: Call) -> None:
    done = call("run", "--hub", NAME, "--device", "cpu")

    assert done.returncode == 2
    assert "--output kernels-traces" in done.stderr


@pytest.mark.full
def test_traces_say_which_revision_they_were_measured_on(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="running solutions needs torch")
    folder = pulled_folder(call)
    before = sorted(folder.rglob("*"))
    quick = ("--iterations", "2", "--num-trials", "1", "--warmup-runs", "1")
    output = tmp_path / "traces"

    done = call("run", "--hub", NAME, "--device", "cpu", *quick, "--output", str(output))

    together = TraceSet.from_paths([folder, output])
    traces = [trace for lists in together.traces.values() for trace in lists]
    assert done.returncode == 0, done.stdout + done.stderr
    assert {trace.evaluation.provenance.dataset_revision for trace in traces} == {folder.name}
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("status", "answered", "remedy"),
    [
        (401, "answered 401 Unauthorized", "log in with `hf auth login`, or check HF_TOKEN"),
        (403, "answered 403 Forbidden", "log in with `hf auth login`, or check HF_TOKEN"),
        (404, "answered 404 Not Found", "check HF_ENDPOINT"),
        (429, "answered 429 Too Many Requests", "pull again later"),
        (500, "answered 500 Internal Server Error", "pull again later"),
    ],
)
def test_what_the_hub_answers_instead_is_said(
    call: Call, hub: HubServer, status: int, answered: str, remedy: str
) -> None:
    hub.status = status

    done = call("hub", "pull", NAME)

    assert done.returncode == 4
    assert answered in done.stderr
    assert remedy in done.stderr


def test_an_interrupted_pull_is_never_taken_for_a_whole_one(call: Call, hub: HubServer) -> None:
    hub.cut = ".jsonl"
    broken = call("hub", "pull", NAME)
    hub.cut = None
    commit = hub.refs["main"]

    looked_at = call("hub", "status", NAME)
    offline = call("report", "best", "--hub", f"{NAME}@{commit}", HF_HUB_OFFLINE="1")
    hub.requests.clear()
    resumed = call("hub", "pull", NAME, "--revision", commit)

    brought = [each for each in hub.requests if each.startswith("GET /datasets/")]
    assert broken.returncode == 4
    assert "could not be brought whole" in broken.stderr
    assert "is here in part" in looked_at.stdout
    assert (offline.returncode, "is here in part only" in offline.stderr) == (4, True)
    assert resumed.returncode == 0
    assert [each.rpartition(".")[2] for each in brought] == ["jsonl"]


@pytest.mark.parametrize("path", ["../../../evil.txt", "definitions/../../../../evil.txt"])
def test_a_file_name_that_leaves_the_folder_is_refused(
    call: Call, hub: HubServer, tmp_path: Path, path: str
) -> None:
    hub.strange_paths = [path]

    done = call("hub", "pull", NAME)

    assert done.returncode == 3
    assert f"{NAME}@main is refused: Invalid filename" in done.stderr
    assert not list(tmp_path.rglob("evil.txt"))


@pytest.mark.parametrize("status", [None, 401])
def test_a_token_is_sent_and_never_shown(call: Call, hub: HubServer, status: int | None) -> None:
    hub.status = status

    done = call("hub", "pull", NAME, "--log-level", "debug", HF_TOKEN="hf_verysecret")

    assert "Bearer hf_verysecret" in hub.tokens
    assert "verysecret" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["org/..", "../kernels", "org/a--b", "org/.a", f"org/{'a' * 96}"])
def test_a_name_that_no_repository_has_is_not_asked_for(
    call: Call, hub: HubServer, name: str
) -> None:
    done = call("hub", "pull", name)

    assert done.returncode == 2
    assert "is no dataset repository" in done.stderr
    assert hub.requests == []


def test_a_revision_is_given_once(call: Call) -> None:
    done = call("hub", "pull", f"{NAME}@main", "--revision", "main")

    assert done.returncode == 2
    assert "give one of them" in done.stderr
