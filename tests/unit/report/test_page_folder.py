from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashinfer_bench.errors import StorageError, UsageError
from flashinfer_bench.report.page.folder import MARK, require_replaceable, write_site

OLD = [("index.html", "old"), ("definitions/a.html", "old a")]
NEW = [("index.html", "new"), ("solutions/b.html", "new b")]


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MARK
    }


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_site_goes_where_nothing_was_with_its_folders(tmp_path: Path) -> None:
    count = write_site(tmp_path / "far" / "site", OLD)

    assert count == 2
    assert files(tmp_path / "far" / "site") == dict(OLD)
    assert names(tmp_path / "far") == ["site"]


def test_an_earlier_site_is_replaced_with_nothing_left_of_it(tmp_path: Path) -> None:
    write_site(tmp_path / "site", OLD)

    write_site(tmp_path / "site", NEW)

    assert files(tmp_path / "site") == dict(NEW)
    assert names(tmp_path) == ["site"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()

    write_site(tmp_path / "site", NEW)

    assert files(tmp_path / "site") == dict(NEW)


@pytest.mark.parametrize("error", [RuntimeError("a template"), KeyboardInterrupt()])
def test_what_fails_halfway_leaves_the_earlier_site_alone(
    tmp_path: Path, error: BaseException
) -> None:
    def pages() -> Iterator[tuple[str, str]]:
        yield "index.html", "new"
        raise error

    write_site(tmp_path / "site", OLD)

    with pytest.raises(type(error)):
        write_site(tmp_path / "site", pages())

    assert files(tmp_path / "site") == dict(OLD)
    assert names(tmp_path) == ["site"]


def test_what_fails_halfway_leaves_no_folder_where_none_was(tmp_path: Path) -> None:
    def pages() -> Iterator[tuple[str, str]]:
        yield "index.html", "new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_site(tmp_path / "site", pages())

    assert names(tmp_path) == []


def test_what_cannot_be_put_in_place_brings_the_earlier_site_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_site(tmp_path / "site", OLD)
    before = names(tmp_path / "site")
    rename = Path.rename

    def full(path: Path, target: Path) -> Path:
        if path.name == "solutions" and target.parent == tmp_path / "site":
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", full)

    with pytest.raises(StorageError, match="No space left on device; what was there is unchanged"):
        write_site(tmp_path / "site", NEW)

    assert files(tmp_path / "site") == dict(OLD)
    assert sorted(names(tmp_path / "site")) == sorted(before)


def test_the_folder_itself_stays_for_who_serves_it_or_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_site(tmp_path / "site", OLD)
    monkeypatch.chdir(tmp_path / "site")

    write_site(Path(), NEW)

    assert files(Path.cwd()) == dict(NEW)


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    write_site(tmp_path / "site", OLD)
    left = tmp_path / "site" / ".flashinfer-bench-draft-x"
    left.mkdir()
    (left / "index.html").write_text("half")

    write_site(tmp_path / "site", NEW)

    assert files(tmp_path / "site") == dict(NEW)
    assert not left.exists()


def test_a_link_that_was_added_is_refused(tmp_path: Path) -> None:
    write_site(tmp_path / "site", OLD)
    (tmp_path / "site" / "papers").symlink_to(tmp_path)

    with pytest.raises(UsageError, match="papers"):
        require_replaceable(tmp_path / "site")


def test_a_folder_of_something_else_is_refused_before_a_page_is_made(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("ten years")

    with pytest.raises(UsageError, match=r"thesis\.tex.*would be lost; name another folder"):
        write_site(tmp_path, iter([]))

    assert names(tmp_path) == ["thesis.tex"]


def test_a_site_that_something_was_added_to_is_refused(tmp_path: Path) -> None:
    write_site(tmp_path / "site", OLD)
    (tmp_path / "site" / "CNAME").write_text("example.org")

    with pytest.raises(UsageError, match="CNAME"):
        require_replaceable(tmp_path / "site")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "site").write_text("")

    with pytest.raises(UsageError, match="is a file"):
        require_replaceable(tmp_path / "site")


@pytest.mark.parametrize("mark", ["", "[]", '{"files": 3}', '{"files": [3]}', '{"other": 1}'])
def test_a_broken_list_of_files_vouches_for_nothing(tmp_path: Path, mark: str) -> None:
    (tmp_path / MARK).write_text(mark)
    (tmp_path / "index.html").write_text("mine")

    with pytest.raises(UsageError, match=r"index\.html"):
        require_replaceable(tmp_path)


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StorageError, match="cannot write the site"):
        write_site(tmp_path / "file" / "site", OLD)


def test_a_link_to_a_site_stays_a_link(tmp_path: Path) -> None:
    write_site(tmp_path / "real", OLD)
    (tmp_path / "link").symlink_to(tmp_path / "real")

    write_site(tmp_path / "link", NEW)

    assert (tmp_path / "link").is_symlink()
    assert files(tmp_path / "real") == dict(NEW)


def test_a_web_server_of_another_user_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0o022)

    write_site(tmp_path / "site", OLD)

    os.umask(before)
    assert (tmp_path / "site").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "site" / "definitions").stat().st_mode & 0o777 == 0o755
