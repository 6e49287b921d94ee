"""A contest as people run it: five teams, two of them attackers; what they get to see; its archive."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flashinfer_bench.data import Solution, save_json_file
from flashinfer_bench.serve.contest.client import ContestClient
from flashinfer_bench.serve.contest.messages import EntryState
from tests.commands import call
from tests.flow.kernels import INCREMENT, QUICK, solution, write_dataset
from tests.flow.recording_proxy import RecordingProxy
from tests.flow.service_processes import Place, place

for package in ("cryptography", "uvicorn", "fastapi"):
    pytest.importorskip(package, reason="the service's extra is not installed")
httpx2 = pytest.importorskip("httpx2", reason="the service's extra is not installed")

SIZES = (104_729, 130_043)
"""The private workloads: numbers that stand nowhere else."""
SLOW = INCREMENT.model_copy(
    update={
        "reference": "def run(x):\n    for _ in range(16):\n        x = x + 0.0625\n    return x\n"
    }
)
FAST = "def run(x):\n    return x + 1\n"
MIDDLE = "def run(x):\n    for _ in range(4):\n        x = x + 0.25\n    return x\n"
LAST = "def run(x):\n    for _ in range(16):\n        x = x + 0.0625\n    return x\n"
LEAK = """
def run(x):
    size = x.shape[0]
    print("axis", size, flush=True)
    print(open(__file__).name, flush=True)
    raise RuntimeError(f"n={size}")
"""
STALE = """
kept = []
def run(x):
    if not kept:
        kept.append(x + 1)
    return kept[0] if kept[0].shape == x.shape else x + 1
"""
TEAMS = {
    "ann": [FAST],
    "ben": [MIDDLE],
    "cat": [LAST],
    "leaker": [LEAK],
    "copier": [STALE, f"{FAST}# mine\n"],
}
ROUTES = (
    *("/", "/definitions", "/definitions/increment", "/definitions/increment/workloads"),
    *("/workloads/{uuid}", "/tasks", "/tasks/{entry}", "/tasks/{entry}?timeout=1"),
    *("/tasks/{entry}/events", "/health", "/healthz", "/readyz", "/metrics", "/openapi.json"),
    *("/board", "/board/", "/board/index.html", "/board/news", "/contest", "/contest/results"),
    *("/contest/entries", "/contest/entries/{entry}", "/contest/board", "/docs"),
    "/contest/definitions/increment",
)


def contest(folder: Path) -> None:
    """Run a contest from its start to its archive, and look at everything."""
    root = write_dataset(folder / "private", sizes=SIZES, definition=SLOW)
    made = folder / "contest"
    settings = folder / "settings.yaml"
    settings.write_text("".join(f"{key}: {value}\n" for key, value in QUICK.items()))
    init = call(
        *("contest", "init", made, "--local", root, "--teams", *TEAMS),
        *("--config", settings, "--json"),
    )
    assert init.returncode == 0, init.stderr
    assert (made.stat().st_mode & 0o777, (made / "contest.key").stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )
    with place(folder / "served") as here:
        _open(here, made)
        proxies = {team: RecordingProxy(here.url) for team in TEAMS}
        with ThreadPoolExecutor(len(TEAMS)) as pool:
            ended = dict(
                zip(
                    TEAMS,
                    pool.map(lambda team: _play(team, made, proxies[team]), TEAMS),
                    strict=True,
                )
            )
        assert [each.outcome for each in ended["ann"]] == ["passed"], here.logs()
        assert [each.outcome for each in ended["leaker"]] == ["failed"]
        assert [each.outcome for each in ended["copier"]] == ["failed", "passed"]
        _attack(made, proxies["leaker"], ended["leaker"][0].entry, ended["ann"][0].entry)
        token = ("--token-file", made / "tokens" / "organiser.token", "--server", here.url)
        copied = ended["copier"][1].entry
        rejected = call(
            *("contest", "review", copied, "rejected", "--reason", "a copy of ann's", *token)
        )
        assert rejected.returncode == 0, rejected.stderr
        of_team = ("--token-file", made / "tokens" / "ben.token", "--server", proxies["ben"].url)
        shown = call("contest", "board", *of_team)
        assert "copier: rejected: a copy of ann's" in shown.stdout
        archive = folder / "archive"
        closed = call(
            *("contest", "close", made, "--output", archive, "--server", here.url, "--json")
        )
        assert closed.returncode == 0, closed.stderr
        file = save(solution(FAST, name="late"), folder / "late.json")
        late = call("contest", "submit", file, *of_team)
        assert (late.returncode, "the contest is closed" in late.stderr) == (2, True)
        final = call("contest", "board", *of_team, "--json")
        _saw_nothing(proxies, root, made)
    _is_ranked(json.loads(closed.stdout)["board"])
    _is_ranked(json.loads(final.stdout)["board"])
    _is_verified(archive, json.loads(init.stdout)["key"])


def _open(here: Place, made: Path) -> None:
    process = here.start("contest", "open", str(made), "--port", "0", "--device", "cpu")
    assert process.stdout is not None
    line = process.stdout.readline()
    assert " is at http" in line, here.logs()
    here.url = line.rpartition(" ")[2].strip()


def save(given: Solution, file: Path) -> Path:
    save_json_file(given, file)
    return file


def _play(team: str, made: Path, proxy: RecordingProxy) -> list[EntryState]:
    """Enter a team's solutions one after the other; each is told its end."""
    token = (made / "tokens" / f"{team}.token").read_text().strip()
    ended = []
    with ContestClient(proxy.url, token) as client:
        assert client.state().is_open
        assert client.definition("increment").name == "increment"
        for number, source in enumerate(TEAMS[team]):
            entered = client.enter(solution(source, name=f"{team}{number}"))
            ended.append(client.wait(entered.entry))
        assert len(client.entries().entries) == len(TEAMS[team])
    return ended


def _attack(made: Path, proxy: RecordingProxy, own: str, another: str) -> None:
    """Ask for everything there is, with a team's token."""
    token = (made / "tokens" / "leaker.token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    (line, *_) = next((made / "dataset" / "workloads").rglob("*.jsonl")).read_text().splitlines()
    uuid = json.loads(line)["workload"]["uuid"]
    other = RecordingProxy(proxy.url)  # what is asked with a uuid may be said back with it
    with httpx2.Client(headers=headers, timeout=20, trust_env=False) as client:
        answers = {}
        for route in ROUTES:
            via = other if "{uuid}" in route else proxy
            for entry in (own, another):
                path = route.format(uuid=uuid, entry=entry)
                answers[path] = client.get(f"{via.url}{path}").status_code
        for path in ("/contest/close", "/contest/reviews", "/evaluate", "/tasks/batch"):
            body = {"entry": another, "state": "rejected", "reason": "no", "task_ids": [own]}
            answers[path] = client.post(f"{proxy.url}{path}", json=body).status_code
    refused = {path for path, status in answers.items() if status in {401, 403, 404, 422}}
    allowed = set(answers) - refused
    assert allowed <= {
        *("/", "/healthz", "/readyz", "/openapi.json", "/docs", "/contest", "/contest/entries"),
        *("/contest/board", "/contest/definitions/increment", f"/contest/entries/{own}"),
        *("/board", "/board/"),  # they lead to a page, which is refused
    }, answers
    assert answers[f"/contest/entries/{another}"] == 404


def _saw_nothing(proxies: dict[str, RecordingProxy], root: Path, made: Path) -> None:
    """No private axis, uuid or seed is in any byte that a team received."""
    secrets = {str(size) for size in SIZES} | {f"{size:,}" for size in SIZES}
    for file in (root / "workloads").rglob("*.jsonl"):
        secrets |= {json.loads(line)["workload"]["uuid"] for line in file.read_text().splitlines()}
    traces = list((made / "dataset" / "traces").rglob("*.jsonl"))
    assert len(traces) == len(TEAMS)
    lines = [json.loads(line) for file in traces for line in file.read_text().splitlines()]
    seeds = {line["evaluation"]["provenance"]["seed"] for line in lines}
    assert len(seeds) == len(lines) == (6 + 3 * 3) * len(SIZES)
    assert any(str(SIZES[0]) in line["evaluation"]["log"] for line in lines)  # it tried
    for team, proxy in proxies.items():
        assert len(proxy.received) > 1000
        found = [each for each in secrets | seeds if each.encode() in proxy.received]
        assert found == [], team


def _is_ranked(board: dict[str, object]) -> None:
    (shown,) = board["definitions"]  # type: ignore[misc]
    assert board["is_final"]
    assert [(each["rank"], each["team"]) for each in shown["ranked"]] == [  # type: ignore[index]
        (1, "ann"),
        (2, "ben"),
        (3, "cat"),
    ], shown
    assert {each["team"]: each["reason"] for each in shown["unranked"]} == {  # type: ignore[index]
        "copier": "rejected: a copy of ann's",
        "leaker": "no entry passed",
    }


def _is_verified(archive: Path, key: str) -> None:
    """It is accepted, and after one flipped byte of any file it is not."""
    good = call("contest", "verify", archive, "--key", key)
    assert good.returncode == 0, good.stdout
    assert f"are as they were signed with {key}" in good.stdout
    assert call("report", "summary", "--local", archive / "dataset").returncode == 0
    other = call("contest", "verify", archive, "--key", "0" * 64, "--json")
    assert (other.returncode, json.loads(other.stdout)["verify"]["board"]) == (1, None)
    copy = archive.parent / "flipped"
    shutil.copytree(archive, copy)
    (trace,) = (copy / "dataset" / "traces" / "ann").rglob("*.jsonl")
    trace.chmod(0o600)
    content = bytearray(trace.read_bytes())
    content[len(content) // 2] ^= 1
    trace.write_bytes(content)
    bad = call("contest", "verify", copy)
    assert bad.returncode == 1
    assert f"{trace.relative_to(copy)} was changed" in bad.stdout


@pytest.mark.full
@pytest.mark.parametrize("run", range(3))
def test_a_contest_ends_with_the_known_ranking_and_tells_nothing(run: int, tmp_path: Path) -> None:
    contest(tmp_path)
