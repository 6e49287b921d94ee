"""What a machine of a cluster does with the bytes it gets, in this process and without Ray."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashinfer_bench.bench.outcomes import Passed
from flashinfer_bench.bench.parent import node, ray_pool
from flashinfer_bench.bench.parent.node import (
    CarriedFiles,
    Described,
    Failed,
    RemoteDevice,
    RemoteEnd,
    decoded,
)
from flashinfer_bench.data import Workload
from flashinfer_bench.errors import DatasetError, DeviceError, WorkerError
from flashinfer_bench.tensors import machine
from tests.flow.kernels import HONEST, quick, solution
from tests.unit.bench.values import finished, job, passed

CONFIG = quick().model_dump_json()
CONTENT = b"some tensors"
HASH = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_device_says_what_it_is() -> None:
    described = decoded(RemoteDevice("cpu", CONFIG).describe())

    assert isinstance(described, Described)
    target = described.target
    assert (target.kind, target.hardware, target.threads) == ("cpu", machine.processor_name(), 1)


def test_a_device_that_is_not_there_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "visible_gpus", machine.VisibleGpus)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)

    described = decoded(RemoteDevice("cuda", CONFIG).describe())

    assert isinstance(described, Failed)
    assert "none found" in described.reason


def test_a_job_arrives_as_it_was_sent_and_its_end_goes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = replace(job(solution(HONEST, name="one")), best_speedup=1.5)
    got: list[Any] = []

    class Pool:
        def __init__(self, devices: tuple[str, ...], **options: Any) -> None:
            got.append(devices)

        def run(self, batches: Any, observe: Any) -> Any:
            got.extend(batches[0])
            yield finished(passed())
            raise WorkerError("the card fell off the bus")

        def close(self) -> None:
            pass

    monkeypatch.setattr(node, "LocalPool", Pool)
    there = RemoteDevice("cpu", CONFIG)
    there.begin(node.carried([sent], [{}]))
    first, second = decoded(there.next_job()), decoded(there.next_job())
    there.close()

    devices, arrived = got
    assert devices == ("cpu",)
    assert arrived.solution.hash() == sent.solution.hash()
    assert arrived.definition.hash() == sent.definition.hash()
    assert (arrived.workload, arrived.config) == (sent.workload, sent.config)
    assert (arrived.config_hash, arrived.best_speedup) == (sent.config_hash, 1.5)
    assert isinstance(first, RemoteEnd)
    assert isinstance(first.outcome, Passed)
    assert first.attempt == finished(passed()).attempt
    assert first.packages == machine.package_versions()
    assert second == Failed("the card fell off the bus")


def test_a_file_is_kept_under_its_hash_and_asked_for_once(own_cache: Path) -> None:
    one, other = RemoteDevice("cpu", CONFIG), RemoteDevice("cpu", CONFIG)
    assert one.lacks([HASH]) == [HASH]

    one.keep(HASH, 5, CONTENT[5:])
    one.keep(HASH, 0, CONTENT[:5])
    one.seal(HASH)

    assert other.lacks([HASH]) == []
    assert (own_cache / "carried/contents" / HASH).read_bytes() == CONTENT


def test_a_file_that_arrived_otherwise_is_not_kept() -> None:
    there = RemoteDevice("cpu", CONFIG)
    there.keep(HASH, 0, b"other bytes!")

    with pytest.raises(WorkerError, match="arrived with the hash"):
        there.seal(HASH)

    assert there.lacks([HASH]) == [HASH]


def test_a_device_sees_files_by_their_names_until_it_ends(own_cache: Path) -> None:
    store = CarriedFiles(own_cache / "carried")
    store.write(HASH, 0, CONTENT)
    store.seal(HASH)
    store.link({"./blobs/x.safetensors": HASH})

    assert (store.tree / "blobs/x.safetensors").read_bytes() == CONTENT
    with pytest.raises(DatasetError, match="leaves the dataset"):
        store.link({"../../../x": HASH})

    store.write("f" * 64, 0, b"half of a f")
    store.close()

    assert not store.tree.exists()
    assert [each.name for each in (own_cache / "carried/contents").iterdir()] == [HASH]


def test_the_files_of_a_job_are_found_by_the_dataset_s_names(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(CONTENT)
    stored = {"type": "safetensors", "path": "x.safetensors", "tensor_key": "x"}
    sent = SimpleNamespace(
        definition=job().definition, workload=Workload(axes={"n": 3}, inputs={"x": stored})
    )

    assert node.files_of(sent, [str(tmp_path)]) == {"x.safetensors": tmp_path / "x.safetensors"}
    assert node.files_of(job(), [str(tmp_path)]) == {}


def test_machines_of_another_version_are_refused_with_a_sentence() -> None:
    class RayError(Exception):
        pass

    class RayTaskError(RayError):
        pass

    def get(answer: Any, timeout: float) -> str:
        if isinstance(answer, Exception):
            raise answer
        return answer

    ours = machine.package_versions()["flashinfer_bench"]
    answers = iter([ours, "0.0.1", RayTaskError(), ours, RayError("it has left")])
    pool = object.__new__(ray_pool.RayPool)
    errors = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
    pool._ray = SimpleNamespace(get=get, exceptions=errors)
    pool._on = lambda *_, **__: SimpleNamespace(remote=lambda _: next(answers))
    machines = [{"NodeID": name, "NodeManagerAddress": f"10.0.0.{name}"} for name in (1, 2, 3)]

    with pytest.raises(DeviceError, match=r"as here: 10.0.0.2 has 0.0.1, 10.0.0.3 has none; inst"):
        pool._of_same_version(machines)

    assert pool._of_same_version(machines[:2]) == machines[:1]
