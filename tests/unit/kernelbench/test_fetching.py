"""KernelBench's files from a real git repository, made here."""

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from flashinfer_bench.cli.main import cli
from flashinfer_bench.errors import DeviceError, UsageError
from flashinfer_bench.kernelbench.fetching import MANIFEST, fetch

_RELU = "level1/19_ReLU.py"


def git(folder: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *settings, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(repository: Path, files: dict[str, str]) -> str:
    for name, content in files.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    git(repository, "add", "-A")
    git(repository, "commit", "--quiet", "-m", "more")
    return git(repository, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "upstream"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(
        folder,
        {
            "KernelBench/level1/19_ReLU.py": "old\n",
            "KernelBench/level2/2_b.py": "b\n",
            "KernelBench/level3/10_c.py": "c\n",
            "KernelBench/level3/gpt_oss.py": "g\n",
            "src/prompts/level1/1_few_shot.py": "not a problem\n",
            "KernelBench/level1/notes.md": "no\n",
            "LICENSE": "theirs\n",
        },
    )
    return folder


def fetched(repository: Path, folder: Path, revision: str | None = None):
    return fetch(folder, revision=revision, repository=str(repository))


def test_problems_of_three_levels_and_the_license_are_written(
    repository: Path, tmp_path: Path
) -> None:
    target = tmp_path / "data"

    result = fetched(repository, target)

    written = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert written == {*result.files, "LICENSE", MANIFEST}
    assert result.files == (_RELU, "level2/2_b.py", "level3/10_c.py", "level3/gpt_oss.py")
    assert (target / _RELU).read_text() == "old\n"


def test_documented_problems_that_are_not_there_are_named(repository: Path, tmp_path: Path) -> None:
    result = fetched(repository, tmp_path / "data")

    assert len(result.missing) == 249
    assert _RELU not in result.missing
    assert "*/gpt_oss.py" not in result.missing
    assert "level3/50_ReLUSelfAttention.py" in result.missing


def test_the_manifest_holds_the_commit_and_sums_that_sha256sum_checks(
    repository: Path, tmp_path: Path
) -> None:
    target = tmp_path / "data"
    fetched(repository, target)

    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", MANIFEST],
        check=False,
        cwd=target,
        capture_output=True,
        text=True,
    )

    assert checked.returncode == 0, checked.stderr
    assert f"# commit: {git(repository, 'rev-parse', 'main')}" in (target / MANIFEST).read_text()


def test_a_second_fetch_stays_at_the_commit_of_the_first(repository: Path, tmp_path: Path) -> None:
    target = tmp_path / "data"
    first = fetched(repository, target)
    commit(repository, {"KernelBench/level1/19_ReLU.py": "new\n"})

    second = fetched(repository, target)

    assert (second.commit, second.was_pinned, second.changed) == (first.commit, True, ())
    assert (target / _RELU).read_text() == "old\n"


def test_a_given_revision_moves_the_pin(repository: Path, tmp_path: Path) -> None:
    target = tmp_path / "data"
    fetched(repository, target)
    newer = commit(repository, {"KernelBench/level1/19_ReLU.py": "new\n"})

    moved = fetched(repository, target, revision="main")
    after = fetched(repository, target)

    assert moved.changed == (_RELU,)
    assert (moved.commit, after.commit) == (newer, newer)


@pytest.mark.parametrize("digits", [40, 12])
def test_an_old_commit_is_found_in_full_and_by_its_first_digits(
    repository: Path, tmp_path: Path, digits: int
) -> None:
    old = git(repository, "rev-parse", "main")
    commit(repository, {"KernelBench/level1/19_ReLU.py": "new\n"})

    result = fetched(repository, tmp_path / "data", revision=old[:digits])

    assert result.commit == old
    assert (tmp_path / "data" / _RELU).read_text() == "old\n"


def test_an_edited_file_is_written_again(repository: Path, tmp_path: Path) -> None:
    target = tmp_path / "data"
    fetched(repository, target)
    (target / _RELU).write_text("mine\n")

    result = fetched(repository, target)

    assert result.changed == (_RELU,)
    assert (target / _RELU).read_text() == "old\n"


def test_an_unreachable_repository_is_one_error_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"cannot reach file:///.*--repository") as caught:
        fetch(tmp_path / "data", repository=f"file://{tmp_path}/nowhere")

    assert "\n" not in str(caught.value)
    assert not (tmp_path / "data").exists()


def test_an_unknown_revision_is_told_from_an_unreachable_repository(
    repository: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="has no revision 'v9'; give a branch, a tag or a commit"):
        fetched(repository, tmp_path / "data", revision="v9")


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder; --repository takes"):
        fetch(tmp_path / "data", repository=str(tmp_path / "nowhere"))


def test_a_repository_without_levels_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet", "--initial-branch=main")
    commit(other, {"README.md": "hello\n"})

    with pytest.raises(UsageError, match=r"has no level1/\*.py"):
        fetched(other, tmp_path / "data")


def test_the_command_says_what_it_brought(repository: Path, tmp_path: Path) -> None:
    arguments = ["kernelbench", "fetch", str(tmp_path / "data"), "--repository", str(repository)]

    page = CliRunner().invoke(cli, arguments)
    document = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).stdout)["fetch"]

    assert page.exit_code == 0
    assert "4 problems in" in page.stdout
    assert "1 of level 1, 1 of level 2, 2 of level 3; 4 files new or changed" in page.stdout
    assert "249 of the documented 251 are not in this commit" in page.stdout
    assert document["was_pinned"]
    assert document["commit"] == git(repository, "rev-parse", "main")
