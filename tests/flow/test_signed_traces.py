"""What real workers sign, and what is found once somebody changed it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import call
from tests.flow.service_processes import honest, place

for package in ("cryptography", "uvicorn", "fastapi", "httpx2"):
    pytest.importorskip(package, reason="the service's extra is not installed")


def test_traces_of_real_workers_are_signed_and_one_flipped_byte_is_found(tmp_path: Path) -> None:
    with place(tmp_path) as here:
        here.serve()  # with a worker of its own
        with here.client() as client:
            task = client.submit(honest("signed")).task_id
            assert client.wait(task, most_s=60).status == "completed"
            (worker,) = client.health().workers
            assert (tmp_path / "cache" / "service" / "worker.key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "known").write_text(f"{worker.key} server/{worker.device}\n")

    good = call("report", "verify", here.dataset, "--keys", tmp_path / "known", "--json")
    document = json.loads(good.stdout)["verify"]
    assert (good.returncode, document["verified"], document["traces"]) == (0, 2, 2)
    assert document["workers"] == [
        {"worker": f"server/{worker.device}", "key": worker.key, "traces": 2}
    ]
    assert call("report", "summary", "--local", here.dataset).returncode == 0
    assert call("validate", "--local", here.dataset).returncode == 0

    (file,) = (here.dataset / "traces").rglob("*.jsonl")
    content = bytearray(file.read_bytes())
    content[content.index(b'"latency_ms":') + len(b'"latency_ms":')] ^= 1
    file.write_bytes(content)
    changed = call("report", "verify", here.dataset)
    assert changed.returncode == 1
    assert f"{file.relative_to(here.dataset)}:1: the line is not what its worker signed" in (
        changed.stdout
    )
    assert "1 of 2 traces are as they were signed" in changed.stdout
