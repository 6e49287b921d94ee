"""What a worker does when things go wrong around it."""

from __future__ import annotations

import threading

import pytest

from flashinfer_bench.serve import messages, worker
from flashinfer_bench.serve.links import LocalLink, UnreachableError, persistently
from flashinfer_bench.serve.refusals import RefusedError
from flashinfer_bench.serve.tokens import LOCAL
from tests.unit.serve.parts import capability, service, submission, trace_of


@pytest.fixture(autouse=True)
def _small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "capability_of", lambda *_: capability())


def test_a_batch_that_breaks_a_worker_is_not_tried_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(worker, "jobs_for", broken)
    running = service()
    task = running.submit(submission(), LOCAL).task_id
    workers = [worker.DeviceWorker(LocalLink(running), "cpu", name=f"box{n}") for n in range(3)]

    for each in workers:
        each._turn(each._register())

    state = running.state(task, LOCAL)
    assert (state.status, state.outcome) == ("failed", "infra_failed")
    assert "ZeroDivisionError" in (state.error or "")
    running.close()


def test_a_worker_whose_token_was_revoked_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    running = service()
    link = LocalLink(running)

    def refuse(*_: object) -> messages.Grant | None:
        raise RefusedError(401, "this token does not count")

    monkeypatch.setattr(link, "take", refuse)

    with pytest.raises(RefusedError, match="does not count"):
        worker.DeviceWorker(link, "cpu").run()
    running.close()


def test_a_worker_the_server_forgot_registers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    running = service()
    monkeypatch.setattr(worker, "_WAIT_S", 0.0)
    each = worker.DeviceWorker(LocalLink(running), "cpu")

    assert each._turn("nobody") is None
    known = each._register()
    assert each._turn(known) == known
    running.close()


def test_what_a_server_does_not_answer_is_asked_again_and_said_once() -> None:
    answers = [UnreachableError("gone"), UnreachableError("gone"), RefusedError(503, "full"), None]
    told: list[str] = []

    def ask() -> str:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return "done"

    assert persistently(ask, threading.Event(), told.append) == "done"
    assert told == ["gone; trying again"]


def test_a_result_that_a_server_cannot_take_is_not_sent_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = service()
    task = running.submit(submission(), LOCAL).task_id
    link = LocalLink(running)

    def refuse(*_: object) -> None:
        raise RefusedError(422, "the signature is not of this trace")

    def run(self: worker.DeviceWorker, grant: messages.Grant, *others: object) -> None:
        others[-1].append(trace_of(grant))  # type: ignore[attr-defined]

    monkeypatch.setattr(link, "finish", refuse)
    monkeypatch.setattr(worker.DeviceWorker, "_run", run)
    workers = [worker.DeviceWorker(link, "cpu", name=f"box{n}") for n in range(3)]
    for each in workers:
        each._turn(each._register())

    state = running.state(task, LOCAL)
    assert state.outcome == "infra_failed"
    assert "the signature is not of this trace" in (state.error or "")
    running.close()
