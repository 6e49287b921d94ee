"""Entries, reviews, the end of a contest and its archive, with workers that are played."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from flashinfer_bench.bench import BenchmarkConfig
from flashinfer_bench.data import (
    Correctness,
    EvaluationStatus,
    Performance,
    TraceSet,
)
from flashinfer_bench.errors import UsageError
from flashinfer_bench.serve import messages as service_messages
from flashinfer_bench.serve.app import make_app
from flashinfer_bench.serve.contest import archive, messages
from flashinfer_bench.serve.contest.contest import Contest
from flashinfer_bench.serve.contest.routes import add_contest
from flashinfer_bench.serve.contest.rules import ORGANISER, ContestFolder, Rules
from flashinfer_bench.serve.database import SqliteDatabase
from flashinfer_bench.serve.refusals import RefusedError
from flashinfer_bench.serve.service import Service
from flashinfer_bench.serve.signing import SigningKey
from flashinfer_bench.serve.tokens import UNLIMITED, Requester
from tests.commands import call
from tests.flow.kernels import HONEST, solution, write_dataset
from tests.loops import run_apart
from tests.unit.serve.parts import register, signed, trace_of

TEAMS = ("ann", "ben", "cat")
KEY = SigningKey()


class Played:
    """A contest whose evaluations are played: what is entered says how fast it will be."""

    def __init__(self, root: Path, **rules: object) -> None:
        self.now_s = 1000.0
        self.root = write_dataset(root / "dataset", sizes=(104_729, 130_043))
        known = {"name": "spring", "teams": list(TEAMS), "key": KEY.public, "reruns": 2}
        self.rules = Rules.model_validate({**known, **rules})
        self.service = Service(
            TraceSet.from_path(self.root), BenchmarkConfig.default(), SqliteDatabase(None)
        )
        self.tokens = {
            team: self.service.tokens.add(team, ["team"]) for team in (*self.rules.teams, "dan")
        }
        self.tokens[ORGANISER] = self.service.tokens.add(
            ORGANISER, ["admin", "read", "team"], UNLIMITED
        )
        self.contest = Contest(self.rules, self.service, clock=lambda: self.now_s)
        self.worker = register(self.service)
        self.runs = 0

    def enter(self, team: str, speed: float | None, name: str = "kernel") -> str:
        """Enter what will be so many times faster; None will fail."""
        given = solution(f"{HONEST}# {name} {speed} {team}\n", name=name)
        return self.contest.enter(messages.NewEntry(solution=given), as_team(team), None).entry

    def evaluate(self, change: Callable[[float | None, int], float | None] = lambda s, _: s) -> int:
        """Play the worker until nothing waits; `change` may see the speed and the run."""
        done = 0
        while (grant := self.service.take(self.worker)) is not None:
            words = grant.solution.sources[0].content.split()
            speed = None if words[-2] == "None" else float(words[-2])
            for index in range(len(grant.workloads)):
                self.runs += 1
                trace = finished(grant, index, change(speed, self.runs), self.runs)
                self.service.finish(grant.lease, signed(trace))
            done += 1
        return done

    def close(self) -> messages.ContestBoard:
        """Close it, and play what is evaluated again."""
        while not self.contest.close().is_closed:
            assert self.evaluate()
        return self.contest.results().board


def finished(grant: service_messages.Grant, index: int, speed: float | None, seed: int) -> object:
    trace = trace_of(grant, index=index, seed=seed)
    if speed is None:
        log = f"n={grant.workloads[index].axes['n']}"
        return trace.model_copy(
            update={"evaluation": trace.evaluation.model_copy(update={"log": log})}
        )
    passed = {
        "status": EvaluationStatus.PASSED,
        "correctness": Correctness(),
        "performance": Performance(
            latency_ms=1.0, reference_latency_ms=speed, speedup_factor=speed
        ),
    }
    return trace.model_copy(update={"evaluation": trace.evaluation.model_copy(update=passed)})


def as_team(team: str) -> Requester:
    return Requester(team, frozenset({"team"}))


OPERATOR = Requester(ORGANISER, frozenset({"admin", "read", "team"}))


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Played]:
    made = Played(tmp_path)
    yield made
    made.service.close()


def ranks(board: messages.ContestBoard) -> list[tuple[str, float]]:
    (shown,) = board.definitions
    assert [each.rank for each in shown.ranked] == list(range(1, len(shown.ranked) + 1))
    return [(each.team, each.score) for each in shown.ranked]


def reasons(board: messages.ContestBoard) -> dict[str, str]:
    (shown,) = board.definitions
    return {each.team: each.reason for each in shown.unranked}


def test_a_team_is_told_its_end_and_nothing_of_workloads(played: Played) -> None:
    entry = played.enter("ann", None)
    assert played.contest.entry(entry, as_team("ann")).status == "pending"
    played.evaluate()

    state = played.contest.entry(entry, as_team("ann"))

    assert (state.status, state.outcome, state.score) == ("ended", "failed", None)
    assert state.statuses == {"RUNTIME_ERROR": 2}
    assert state.log == ["RUNTIME_ERROR: 2 of 2 workloads; what it printed is withheld"]
    text = state.to_json()
    stored = played.service.queue.task(entry, None)["results"]
    assert all("n=" in each["trace"] for each in stored)
    for secret in ("104729", "130043", *(each["workload"] for each in stored)):
        assert secret not in text


def test_the_best_entry_of_a_team_counts_and_failures_do_not(played: Played) -> None:
    for team, speed in (("ann", 2.0), ("ann", 4.0), ("ann", 3.0), ("ben", 5.0), ("cat", None)):
        played.enter(team, speed, name=f"k{speed}")
        played.evaluate()

    board = played.contest.board(as_team("cat"))

    assert not board.is_final
    assert ranks(board) == [("ben", 5.0), ("ann", 4.0)]
    assert reasons(board) == {"cat": "no entry passed"}
    assert [each.entry for each in board.definitions[0].ranked] == [None, None]
    assert all(each.entry for each in played.contest.board(OPERATOR).definitions[0].ranked)


def test_one_workload_that_fails_is_no_score(played: Played) -> None:
    entry = played.enter("ann", 2.0)
    played.evaluate(lambda speed, run: None if run == 2 else speed)

    state = played.contest.entry(entry, as_team("ann"))

    assert (state.outcome, state.score) == ("failed", None)
    assert state.statuses == {"PASSED": 1, "RUNTIME_ERROR": 1}


def test_leaders_are_ranked_by_what_they_do_when_evaluated_again(played: Played) -> None:
    for team, speed in (("ann", 2.0), ("ben", 5.0), ("cat", 3.0)):
        played.enter(team, speed)
    played.evaluate()
    assert played.contest.close().waiting_for == 6
    for team in TEAMS:
        (own,) = played.contest.entries(as_team(team)).entries
        assert own.status == "ended"  # of the secret evaluations nobody hears

    again = {2.0: [4.0, 6.0, 6.0, 8.0], 5.0: [None] * 4, 3.0: [3.0] * 4}
    played.evaluate(lambda speed, _: again[speed or 0.0].pop(0))
    board = played.close()

    assert board.is_final
    assert ranks(board) == [("ann", pytest.approx(5.916, abs=0.001)), ("cat", 3.0)]
    assert reasons(board) == {"ben": "its best entry failed when it was evaluated again"}
    assert played.contest.board(as_team("ann")).is_final


def test_only_leaders_are_evaluated_again(tmp_path: Path) -> None:
    played = Played(tmp_path, leaders=1)
    for team, speed in (("ann", 2.0), ("ben", 5.0)):
        played.enter(team, speed)
    played.evaluate()

    board = played.close()

    assert ranks(board) == [("ben", 5.0)]
    assert reasons(board) == {"ann": "it was not among the leaders", "cat": "it entered nothing"}
    played.service.close()


def test_a_secret_evaluation_that_machines_failed_at_is_done_again(played: Played) -> None:
    played.enter("ann", 2.0)
    played.evaluate()
    played.contest.close()
    for _ in range(3):
        grant = played.service.take(played.worker)
        assert grant is not None
        release = service_messages.Release(reason="a fault of the machine", is_fault=True)
        played.service.release(grant.lease, release)
    played.service.forgive("box/cpu")

    assert played.contest.close().waiting_for == 2
    assert ranks(played.close()) == [("ann", 2.0)]


def test_what_machines_failed_at_is_no_entry(tmp_path: Path) -> None:
    played = Played(tmp_path, most_entries=1)
    entry = played.enter("ann", 2.0)
    for _ in range(3):
        grant = played.service.take(played.worker)
        assert grant is not None
        played.service.release(
            grant.lease, service_messages.Release(reason="n=104729 broke", is_fault=True)
        )

    state = played.contest.entry(entry, as_team("ann"))

    assert state.outcome == "not_evaluated"
    assert "104729" not in state.to_json()
    assert played.contest.state(as_team("ann")).entries_left == 1
    assert played.enter("ann", 3.0)
    played.service.close()


def test_reviews_are_respected(played: Played) -> None:
    first, second = played.enter("ann", 5.0, "a"), played.enter("ann", 4.0, "b")
    played.enter("ben", 3.0)
    played.evaluate()
    review = played.contest.review

    review(messages.NewReview(entry=first, state="rejected", reason="it copies"))
    assert ranks(played.contest.board(OPERATOR)) == [("ann", 4.0), ("ben", 3.0)]
    review(messages.NewReview(entry=second, state="rejected", reason="that too"))
    board = played.contest.board(OPERATOR)
    assert ranks(board) == [("ben", 3.0)]
    assert reasons(board)["ann"] == "rejected: that too"
    review(messages.NewReview(entry=second, state="accepted"))
    assert [each.review.state for each in played.contest.board(OPERATOR).definitions[0].ranked] == [
        "accepted",
        "automatic",
    ]
    told = played.contest.entry(first, as_team("ann")).review
    assert (told.state, told.reason) == ("rejected", "it copies")
    assert ranks(played.close()) == [("ann", 4.0), ("ben", 3.0)]


def test_a_rejection_needs_a_reason_and_an_entry(played: Played) -> None:
    entry = played.enter("ann", 2.0)
    with pytest.raises(RefusedError, match="say why"):
        played.contest.review(messages.NewReview(entry=entry, state="rejected", reason=" "))
    with pytest.raises(RefusedError, match="no task"):
        played.contest.review(messages.NewReview(entry="none", state="accepted"))


def test_who_may_enter_when_and_how_often(tmp_path: Path) -> None:
    played = Played(tmp_path, deadline="1970-01-01T01:00:00+00:00", most_entries=2)
    with pytest.raises(RefusedError, match="'dan' is no team"):
        played.enter("dan", 2.0)
    played.enter("ann", 2.0)
    played.enter("ann", 3.0)
    with pytest.raises(RefusedError, match="may enter no more") as refused:
        played.enter("ann", 4.0)
    assert refused.value.status == 429
    played.now_s = 3600.0
    with pytest.raises(RefusedError, match="the deadline was"):
        played.enter("ben", 2.0)
    assert not played.contest.state(as_team("ben")).is_open
    played.evaluate()
    played.close()
    played.now_s = 0.0
    with pytest.raises(RefusedError, match="is closed"):
        played.enter("ben", 2.0)
    played.service.close()


def test_results_come_once_it_is_closed(played: Played) -> None:
    played.enter("ann", 2.0)

    assert played.contest.close() == messages.Closing(is_closed=False, waiting_for=1)
    with pytest.raises(RefusedError, match="not closed yet"):
        played.contest.results()


def test_a_token_opens_what_is_for_it(played: Played) -> None:
    app = make_app()
    app.state.service = played.service
    add_contest(app, played.contest)
    entry = played.enter("ann", 2.0)

    async def ask(team: str, method: str, path: str, body: object = None) -> int:
        transport = httpx2.ASGITransport(app=app)
        headers = {"Authorization": f"Bearer {played.tokens[team]}"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.request(method, path, json=body, headers=headers)).status_code

    def status(*asked: object) -> int:
        return run_apart(ask(*asked))  # type: ignore[arg-type]

    review = {"entry": entry, "state": "rejected", "reason": "no"}
    assert status("ann", "GET", f"/contest/entries/{entry}") == 200
    assert status("ben", "GET", f"/contest/entries/{entry}") == 404
    assert status("ann", "GET", "/contest/definitions/increment") == 200
    for method, path, body in (
        ("POST", "/contest/reviews", review),
        ("POST", "/contest/close", None),
        ("GET", "/contest/results", None),
        ("GET", f"/tasks/{entry}", None),
        ("GET", f"/tasks/{entry}/events", None),
        ("GET", "/definitions/increment/workloads", None),
        ("GET", "/board/index.html", None),
        ("POST", "/workers", {}),
        ("POST", f"/tasks/{entry}/cancel", None),
    ):
        assert status("ann", method, path, body) == 403, path
    assert status(ORGANISER, "POST", "/contest/reviews", review) == 200
    assert status(ORGANISER, "POST", f"/tasks/{entry}/cancel") == 200
    assert played.contest.entry(entry, as_team("ann")).log == ["the organiser ended it"]


def closed(played: Played, folder: Path) -> Path:
    for team, speed in (("ann", 2.0), ("ben", 5.0), ("cat", None)):
        played.enter(team, speed)
    played.evaluate()
    played.close()
    archive.write(played.root, played.contest.results(), KEY, folder)
    return folder


def test_an_archive_is_verified_to_the_byte(played: Played, tmp_path: Path) -> None:
    folder = closed(played, tmp_path / "archive")
    again = tmp_path / "again"
    archive.write(played.root, played.contest.results(), KEY, again)
    assert (again / "manifest.sig").read_bytes() == (folder / "manifest.sig").read_bytes()
    report = archive.verify(folder, KEY.public)
    assert (report.faults, report.traces, report.contest) == ((), 14, "spring")
    assert report.board is not None
    assert ranks(report.board) == [("ben", 5.0), ("ann", 2.0)]

    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".jsonl", ".ndjson", ".sig"}
    for file in files:
        assert file.stat().st_mode & 0o222 == 0
        whole = file.read_bytes()
        file.chmod(0o600)
        for place in (0, len(whole) // 2, len(whole) - 1):
            for bit in (1, 32):  # 32: a letter's case
                changed = bytearray(whole)
                changed[place] ^= bit
                file.write_bytes(changed)
                assert archive.verify(folder).faults, (file, place, bit)
        file.write_bytes(whole)
    assert archive.verify(folder).faults == ()


def test_what_is_missing_added_or_of_another_key_is_named(played: Played, tmp_path: Path) -> None:
    folder = closed(played, tmp_path / "archive")
    (trace, *_) = (folder / "dataset" / "traces").rglob("*.jsonl")
    moved = trace.rename(tmp_path / "aside")
    assert archive.verify(folder).faults == (f"{trace.relative_to(folder)} is missing",)
    moved.rename(trace)
    (folder / "more").write_text("")
    assert archive.verify(folder).faults == ("more is not in the manifest",)
    (folder / "more").unlink()
    other = SigningKey().public
    assert archive.verify(folder, other).faults == (f"it is signed with another key: {KEY.public}",)
    with pytest.raises(UsageError, match="is no archive"):
        archive.verify(tmp_path)


def test_a_ranking_that_does_not_follow_is_named_though_it_is_signed(
    played: Played, tmp_path: Path
) -> None:
    for team, speed in (("ann", 2.0), ("ben", 5.0)):
        played.enter(team, speed)
    played.evaluate()
    played.close()
    results = played.contest.results()
    (shown,) = results.board.definitions
    swapped = [each.model_copy(update={"rank": 3 - each.rank}) for each in reversed(shown.ranked)]
    board = results.board.model_copy(
        update={"definitions": [shown.model_copy(update={"ranked": swapped})]}
    )
    forged = results.model_copy(update={"board": board})

    archive.write(played.root, forged, KEY, tmp_path / "archive")

    (fault,) = archive.verify(tmp_path / "archive").faults
    assert "does not follow" in fault


def test_init_keeps_workloads_and_keys_to_the_organiser(tmp_path: Path) -> None:
    others = solution(HONEST, name="known", author="baseline")
    root = write_dataset(tmp_path / "dataset", others)
    folder = tmp_path / "contest"

    done = call("contest", "init", folder, "--local", root, "--teams", *TEAMS, "--json")

    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["key"] == ContestFolder(folder).rules().key
    assert [Path(each).stem for each in document["tokens"]] == [*TEAMS, "workers", ORGANISER]
    for file in (*map(Path, document["tokens"]), folder / "contest.key", folder / "store.sqlite"):
        assert file.stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0
    assert list((folder / "dataset" / "solutions").iterdir()) == []
    assert ContestFolder(folder).rules().settings["sandbox"] == "required"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--teams", "ann", "--deadline", "tomorrow"), "--deadline tomorrow is no time"),
        (("--teams", "ann", "--deadline", "2026-12-01T12:00:00"), "with its zone"),
        (("--teams", ORGANISER), "has a meaning of its own"),
        (("--teams", "a/b"), "cannot be a tenant"),
        (("--teams", ""), "--teams names nobody"),
        (("--teams", "ann", "--hardware", ""), "--hardware is empty"),
        ((), "--teams"),
    ],
)
def test_a_contest_that_cannot_be_is_refused_and_nothing_is_left(
    options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    root = write_dataset(tmp_path / "dataset")

    done = call("contest", "init", tmp_path / "contest", "--local", root, *options)

    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert [each.name for each in tmp_path.iterdir()] == ["dataset"]


def test_a_folder_without_a_contest_is_named(tmp_path: Path) -> None:
    done = call("contest", "open", tmp_path)

    assert done.returncode == 2
    assert f"{tmp_path} holds no contest: `contest init {tmp_path}` makes one" in done.stderr


def test_the_same_code_under_another_name_is_verified_too(played: Played, tmp_path: Path) -> None:
    played.enter("ann", 2.0, "one")
    played.evaluate()
    code = solution(f"{HONEST}# one 2.0 ann\n", name="two")
    again = played.contest.enter(messages.NewEntry(solution=code), as_team("ann"), None)
    assert (again.status, again.outcome) == ("ended", "passed")  # known, not measured again
    played.close()

    archive.write(played.root, played.contest.results(), KEY, tmp_path / "archive")

    assert archive.verify(tmp_path / "archive").faults == ()


def test_who_looks_for_results_does_not_close_the_contest(played: Played) -> None:
    with pytest.raises(RefusedError, match="not closed yet"):
        played.contest.results()

    assert played.contest.state(as_team("ann")).is_open
    assert played.enter("ann", 2.0)


def test_a_team_is_ranked_once_when_its_rejected_entry_is_accepted_after_all(
    played: Played,
) -> None:
    first, _ = played.enter("ann", 5.0, "a"), played.enter("ann", 4.0, "b")
    played.enter("ben", 3.0)
    played.evaluate()
    review = played.contest.review
    assert ranks(played.close()) == [("ann", 5.0), ("ben", 3.0)]
    review(messages.NewReview(entry=first, state="rejected", reason="it copies"))
    assert ranks(played.close()) == [("ann", 4.0), ("ben", 3.0)]

    review(messages.NewReview(entry=first, state="accepted"))

    assert ranks(played.close()) == [("ann", 5.0), ("ben", 3.0)]
