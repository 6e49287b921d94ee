"""The GitHub action, its own steps run as a runner does, on a repository with a pull request."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.flow.kernels import solution, write_dataset

pytest.importorskip("torch", reason="running solutions needs torch")

ACTION = yaml.safe_load((Path(__file__).parents[2] / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]
EXPRESSION = re.compile(r"\$\{\{ *(.+?) *\}\}")
QUICK = "--num-trials 1 --iterations 20 --warmup-runs 2 --threads 1"
WORK = "def run(x):\n    for _ in range({times}):\n        y = (x * 3).sin().cos().tanh()\n    return x + 1 + 0 * y\n"


@dataclass
class Repository:
    """A repository with a dataset, and the temporary folder of a runner."""

    folder: Path
    temporary: Path
    said: list[str] = field(default_factory=list)

    def git(self, *words: str) -> str:
        name = ("-c", "user.name=me", "-c", "user.email=me@example.org")
        done = subprocess.run(
            ["git", *name, *words], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, source: str) -> str:
        """Commit a kernel; give the commit."""
        write_dataset(self.folder / "kernels", solution(source, name="mine"), sizes=(200_000,))
        self.git("add", "-A")
        self.git("commit", "--quiet", "--allow-empty", "-m", "a kernel")
        return self.git("rev-parse", "HEAD")

    @property
    def summary(self) -> str:
        return (self.temporary / "summary.md").read_text()

    def act(self, base: str, **inputs: str) -> int:
        """Run the steps; the exit code of the first that fails ends it."""
        given = {name: each["default"] for name, each in ACTION["inputs"].items()}
        given |= {"install": "", "dataset": "kernels", "device": "cpu", "run-options": QUICK}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        known = {f"inputs.{name}": value for name, value in given.items()}
        known |= {
            "github.event.pull_request.base.sha": base,
            "runner.temp": str(self.temporary),
            "'HEAD^'": "HEAD^",
        }
        for step in STEPS:
            if "if" in step and not condition(step["if"], known):
                continue
            script = self.temporary / "step.sh"
            script.write_text(step["run"])
            added = {name: filled(text, known) for name, text in step["env"].items()}
            environment = {
                **os.environ,
                **added,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "GITHUB_STEP_SUMMARY": str(self.temporary / "summary.md"),
                "FIB_CACHE_PATH": str(self.temporary / "cache"),
            }
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            self.said += [done.stdout, done.stderr]
            if done.returncode:
                return done.returncode
        return 0


def filled(text: str, known: dict[str, str]) -> str:
    """Fill in expressions: names, and `||` between them."""

    def value(match: re.Match[str]) -> str:
        found = [known[name.strip()] for name in match[1].split("||")]
        return next(filter(None, found), "")

    return EXPRESSION.sub(value, text)


def condition(text: str, known: dict[str, str]) -> bool:
    name, _, other = text.partition(" != ")
    return known[name] != other.strip("'")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    folder, temporary = tmp_path / "repository", tmp_path / "runner"
    folder.mkdir()
    temporary.mkdir()
    made = Repository(folder, temporary)
    made.git("init", "--quiet", "-b", "main")
    return made


def test_a_pull_request_with_a_slower_kernel_fails(repository: Repository) -> None:
    base = repository.commit(WORK.format(times=1))
    repository.commit(WORK.format(times=8))

    code = repository.act(base)

    assert code == 1, repository.said
    assert "SLOWER" in repository.summary
    assert "mine" in repository.summary
    assert (repository.temporary / "flashinfer-bench" / "compare.xml").exists()
    assert repository.git("status", "--porcelain") == ""
    assert len(repository.git("worktree", "list").splitlines()) == 1


@pytest.mark.full
def test_a_pull_request_with_a_kernel_that_fails_fails(repository: Repository) -> None:
    base = repository.commit(WORK.format(times=1))
    repository.commit("def run(x):\n    return x + 2\n")

    assert repository.act(base) == 1, repository.said


@pytest.mark.full
def test_a_pull_request_that_changes_no_speed_passes(repository: Repository) -> None:
    base = repository.commit(WORK.format(times=4))
    repository.commit(WORK.format(times=4) + "# the same\n")

    code = repository.act(base, repeats="2", fail_on="slower>60%\nfailed\n")

    assert code == 0, repository.said
    assert "SLOWER" not in repository.summary


def test_every_expression_names_an_input_that_there_is() -> None:
    texts = [text for step in STEPS for text in step["env"].values()]
    texts += [f"${{{{ {step['if'].partition(' ')[0]} }}}}" for step in STEPS if "if" in step]

    named = {
        name.strip()
        for text in texts
        for each in EXPRESSION.findall(text)
        for name in each.split("||")
    }

    inputs = {name.removeprefix("inputs.") for name in named if name.startswith("inputs.")}
    assert inputs == set(ACTION["inputs"])
    assert ACTION["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" for step in STEPS)
    assert not any(
        EXPRESSION.search(step["run"]) for step in STEPS
    )  # what is put in scripts is code
