from __future__ import annotations

import email.parser
import importlib.metadata
from pathlib import Path

import pytest

from flashinfer_bench.tensors.machine import package_version, processors_for


@pytest.fixture
def four_cores(tmp_path: Path) -> Path:
    """Eight logical processors on four cores; siblings are neighbours: 0 and 1, 2 and 3, …"""
    for processor in range(8):
        topology = tmp_path / f"cpu{processor}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text("0\n")
        (topology / "core_id").write_text(f"{processor // 2}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("count", "chosen"),
    [
        (1, [6]),
        (2, [4, 6]),
        (4, [0, 2, 4, 6]),
        (6, [0, 2, 4, 6, 1, 3]),
        (8, [0, 2, 4, 6, 1, 3, 5, 7]),
        (99, [0, 2, 4, 6, 1, 3, 5, 7]),
    ],
)
def test_threads_get_cores_of_their_own_before_they_share_one(
    four_cores: Path, count: int, chosen: list[int]
) -> None:
    assert processors_for(count, range(8), system=four_cores) == chosen


def test_only_allowed_processors_are_chosen(four_cores: Path) -> None:
    assert processors_for(2, {1, 2, 3}, system=four_cores) == [1, 2]


def test_without_a_description_every_processor_is_a_core(tmp_path: Path) -> None:
    assert processors_for(2, range(4), system=tmp_path) == [2, 3]


@pytest.mark.parametrize("name", ["flashinfer-bench", "psutil"])
def test_a_version_is_read_without_a_reader_of_mail(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    known = importlib.metadata.version(name)
    monkeypatch.setattr(email.parser, "Parser", None)

    assert package_version(name) == known


def test_of_a_package_that_is_not_there_no_version_is_known() -> None:
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        package_version("no-such-package")
