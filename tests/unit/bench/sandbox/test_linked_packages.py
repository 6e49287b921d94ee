from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from flashinfer_bench.bench.sandbox import allowlist, linked_packages

FILES = ("kernels/__init__.py", "kernels/include/tensor.h", "kernels.libs/lib.so")
RECORD = "kernels-1.0.dist-info/METADATA"


def installed(folder: Path, cache: Path, files: tuple[str, ...]) -> Path:
    """Install files as links into a cache; return the folder of packages."""
    packages = folder / "lib" / "site-packages"
    for name in files:
        for file in (cache / name, packages / name):
            file.parent.mkdir(parents=True, exist_ok=True)
        (cache / name).touch()
        (packages / name).symlink_to(cache / name)
    return packages


def readable(
    monkeypatch: pytest.MonkeyPatch, *packages: Path, home: Path | None = None
) -> set[str]:
    monkeypatch.setattr(sys, "path", list(map(str, packages)))
    return set(allowlist.readable({"HOME": str(home or "/nonexistent"), "PATH": ""}))


def test_what_a_wheel_links_to_is_readable_and_what_lies_beside_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "home" / ".cache" / "archive" / "f00"
    packages = installed(tmp_path, wheel, (*FILES, RECORD))

    found = readable(monkeypatch, packages, home=tmp_path / "home")

    assert str(wheel) in found
    assert not {str(parent) for parent in wheel.parents} & found


def test_a_cache_behind_a_link_is_readable_by_both_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "disk")
    packages = installed(tmp_path, tmp_path / "cache" / "f00", (*FILES, RECORD))

    found = readable(monkeypatch, packages)

    assert {str(tmp_path / "cache" / "f00"), str(tmp_path / "disk" / "f00")} <= found


def test_a_package_of_links_without_a_record_is_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = installed(tmp_path, tmp_path / "cache", FILES)

    assert str(tmp_path / "cache" / "kernels") in readable(monkeypatch, packages)


def test_packages_that_are_links_themselves_are_readable_but_not_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, packages = tmp_path / "home", tmp_path / "site-packages"
    for folder in (home / "mine", packages):
        folder.mkdir(parents=True)
    (packages / "mine").symlink_to("../home/mine")
    (packages / "everything").symlink_to(home)

    found = readable(monkeypatch, packages, home=home)

    assert str(home / "mine") in found
    assert str(home) not in found


def test_a_store_of_single_files_is_not_shown_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages, store = tmp_path / "site-packages", tmp_path / "store"
    for folder in (packages / "kernels", store):
        folder.mkdir(parents=True)
    (store / "f00.py").touch()
    (packages / "kernels" / "__init__.py").symlink_to(store / "f00.py")

    assert not [each for each in readable(monkeypatch, packages) if each.startswith(str(store))]


def test_links_of_a_folder_without_packages_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "project" / "data").symlink_to(tmp_path / "data")

    assert str(tmp_path / "data") not in readable(monkeypatch, tmp_path / "project")


def test_a_file_that_is_not_shown_is_told_in_a_line_with_its_target_and_a_remedy(
    tmp_path: Path,
) -> None:
    packages = installed(tmp_path, tmp_path / "cache", FILES)
    file = packages / "kernels" / "__init__.py"

    text = linked_packages.failure_text(PermissionError(13, "Permission denied", str(file)))

    assert len(text.splitlines()) == 1
    assert f"{file}, a link to {tmp_path / 'cache' / 'kernels' / '__init__.py'}" in text
    assert "--link-mode copy" in text


def test_other_faults_keep_their_traceback() -> None:
    text = linked_packages.failure_text(PermissionError(13, "Permission denied", "/etc/shadow"))

    assert "PermissionError: [Errno 13]" in text


def test_packages_that_can_be_read_are_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))

    linked_packages.require_shown()
