"""Whatever is sent to a documented route, with every right there is: an answer of the document, or a sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from flashinfer_bench.serve.app import make_app
from flashinfer_bench.serve.service import Service
from tests.loops import run_apart
from tests.unit.serve.parts import KEY, capability, register, service, submission

app = make_app()
SCHEMA = app.openapi()
ROUTES = [
    (method.upper(), path, about)
    for path, methods in SCHEMA["paths"].items()
    for method, about in methods.items()
    if path != "/shutdown"
]
TEXT = some.text(some.characters(), max_size=20)  # halves of surrogate pairs among them
SCALARS = some.none() | some.booleans() | some.integers() | some.floats() | TEXT
JSON = some.recursive(
    SCALARS,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
WORDS = some.text(max_size=60) | some.sampled_from(
    ["-1", "0", "1e400", "nan", "\x00", "..", "../x", "' OR 1=1 --", "9" * 30, "x" * 4000]
)
HEADERS = some.text(
    some.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=60
)


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    made = service(sizes=(100, 200))
    yield made
    made.close()


@pytest.fixture(scope="module")
def known(running: Service) -> dict[str, str]:
    """What names things that there are, and a token with every scope."""
    token = running.tokens.add("operator", ["read", "submit", "worker", "admin"])
    worker = register(running)
    operator = running.tokens.caller(token)
    assert operator is not None
    task = running.submit(submission(name="ended"), operator).task_id
    running.cancel(task, operator)  # or its events would go on for ever
    running.submit(submission(), operator)
    grant = running.take(worker)
    assert grant is not None
    return {
        "token": token,
        "task_id": task,
        "worker": worker,
        "lease": grant.lease,
        "name": "increment",
        "uuid": grant.workloads[0].uuid,
    }


def good_bodies(path: str) -> Any:
    bodies = {
        "/evaluate": submission().to_json(),
        "/workers": json.dumps(
            {"name": "box", "capability": json.loads(capability().to_json()), "key": KEY.public}
        ),
        "/tasks/batch": json.dumps({"task_ids": []}),
        "/leases/{lease}/beat": json.dumps({"events": [{"kind": "started", "data": {}}]}),
        "/leases/{lease}/results": json.dumps({"workload": "x", "reason": "why"}),
        "/leases/{lease}/release": json.dumps({"reason": "why", "is_fault": False}),
    }
    return json.loads(bodies.get(path, "{}"))


@some.composite
def changed(draw: some.DrawFn, value: Any) -> Any:
    """A body with something else somewhere in it."""
    if isinstance(value, dict) and value and draw(some.integers(0, 9)) < 8:
        key = draw(some.sampled_from(sorted(value)))
        return {**value, key: draw(changed(value[key]))}
    if isinstance(value, list) and value and draw(some.booleans()):
        return [draw(changed(value[0])), *value[1:]]
    return draw(JSON)


async def send(method: str, url: str, headers: dict[str, bytes], body: bytes) -> httpx2.Response:
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.request(method, url, headers=headers, content=body)


@pytest.mark.parametrize(
    ("method", "path", "about"), ROUTES, ids=[f"{method} {path}" for method, path, _ in ROUTES]
)
def test_any_request_has_an_answer_or_a_sentence(
    method: str, path: str, about: dict[str, Any], running: Service, known: dict[str, str]
) -> None:
    app.state.service, app.state.is_open = running, True
    app.state.only_own_names = False
    parameters = about.get("parameters", [])

    @settings(
        max_examples=40, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(some.data())
    def tried(data: some.DataObject) -> None:
        url, query = path, {}
        headers = {"Authorization": f"Bearer {known['token']}".encode()}
        for each in parameters:
            name, text = each["name"], some.none()
            if each["in"] == "path":
                text = data.draw(some.just(known.get(name, "x")) | WORDS)
                url = url.replace(f"{{{name}}}", quote(text, safe="") or "x")
            elif each["in"] == "query" and data.draw(some.booleans()):
                query[name] = "0.01" if name == "timeout" and "lease" in path else data.draw(WORDS)
            elif each["in"] == "header" and name != "Authorization" and data.draw(some.booleans()):
                headers[name] = data.draw(HEADERS).strip().encode("latin-1")
        body = b""
        if "requestBody" in about:
            value = data.draw(changed(good_bodies(path)) | JSON)
            body = data.draw(some.just(json.dumps(value).encode()) | some.binary(max_size=200))
            headers["Content-Type"] = b"application/json"

        answer = run_apart(send(method, f"{url}?{urlencode(query)}", headers, body))

        assert answer.status_code < 500, (url, query, body, answer.text)
        if answer.status_code == 307:  # a slash too many
            assert (
                answer.headers["location"]
                .partition("?")[0]
                .endswith(quote(url, safe="/%").rstrip("/"))
            )
            return
        if answer.status_code >= 400:
            assert isinstance(answer.json()["detail"], str)
            assert len(answer.text) < 2000
        else:
            assert str(answer.status_code) in about["responses"]

    tried()
