from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.compile.cache import BuildCache, build_key, package_name
from flashinfer_bench.errors import BuildError, DeviceError

if TYPE_CHECKING:
    from pathlib import Path


def write_file(folder: Path) -> None:
    (folder / "made").write_text("made")


def fail_half_way(folder: Path) -> None:
    write_file(folder)
    raise BuildError("half way")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_folder_holds_what_was_made(tmp_path: Path) -> None:
    with BuildCache(tmp_path).folder("python", "package", write_file) as folder:
        found = names_in(folder)

    assert found == ["made"]
    assert folder == tmp_path / "python" / "package"


def test_a_finished_build_is_not_made_again(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    with cache.folder("python", "package", write_file):
        pass

    with cache.folder("python", "package", fail_half_way) as folder:
        found = names_in(folder)

    assert found == ["made"]


def test_a_build_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)

    with (
        pytest.raises(BuildError, match="half way"),
        cache.folder("python", "package", fail_half_way),
    ):
        pass

    assert names_in(tmp_path / "python") == []


def test_a_new_build_that_proves_unusable_is_removed(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)

    with pytest.raises(BuildError), cache.folder("python", "package", write_file):
        raise BuildError("does not import")

    assert names_in(tmp_path / "python") == []


def test_a_build_of_others_survives_a_failure_to_use_it(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    with cache.folder("python", "package", write_file):
        pass

    with pytest.raises(BuildError), cache.folder("python", "package", write_file):
        raise BuildError("does not import")

    assert names_in(tmp_path / "python" / "package") == ["made"]


def test_what_a_killed_build_left_is_swept_by_the_next_one(tmp_path: Path) -> None:
    left = tmp_path / "python" / ".building-other"
    left.mkdir(parents=True)

    with BuildCache(tmp_path).folder("python", "package", write_file):
        pass

    assert names_in(tmp_path / "python") == ["package"]


def test_a_cache_that_cannot_be_written_says_where_and_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    cache = BuildCache(file)

    with (
        pytest.raises(DeviceError, match=r"file.*FIB_CACHE_PATH"),
        cache.folder("python", "package", write_file),
    ):
        pass


def test_a_key_tells_solutions_builders_and_toolchains_apart() -> None:
    keys = {
        build_key("h", builder="b", toolchain={"compiler": "12"}),
        build_key("h", builder="b", toolchain={"compiler": "13"}),
        build_key("h", builder="c", toolchain={"compiler": "12"}),
        build_key("i", builder="b", toolchain={"compiler": "12"}),
    }

    assert len(keys) == 4


def test_a_key_does_not_depend_on_the_order_of_facts() -> None:
    one = build_key("h", builder="b", toolchain={"compiler": "12", "cpu": "x"})
    other = build_key("h", builder="b", toolchain={"cpu": "x", "compiler": "12"})

    assert one == other


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("kernel", "p_kernel_0"),
        ("my kernel/v2", "p_my_kernel_v2_0"),
        ("2fast", "p__2fast_0"),
        ("ü!", "p____0"),
        ("x" * 300, f"p_{'x' * 100}_0"),
    ],
)
def test_a_package_is_named_so_that_python_and_the_file_system_take_it(
    name: str, package: str
) -> None:
    assert package_name("p_", name, "0") == package
