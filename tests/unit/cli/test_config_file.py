"""A setting of `--config` holds unless its option is given: every option, every command that takes a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from flashinfer_bench.bench import BenchmarkConfig
from flashinfer_bench.cli.dataset import validate
from flashinfer_bench.cli.main import cli
from flashinfer_bench.cli.measure import run as run_command
from flashinfer_bench.errors import WorkerError

DATASET = Path(__file__).parents[2] / "golden" / "dataset"

IN_THE_FILE: dict[str, Any] = {
    "definitions": ["gemm_*"], "solutions": ["gemm_n8_*"], "op_types": ["gemm"], "authors": ["bob"],
    "workloads": ["*-w1"], "workload_class": "full", "warmup_runs": 3, "iterations": 7, "num_trials": 2,
    "until_interval": 0.03, "time_budget_seconds": 4.0, "rtol": 0.2, "atol": 0.3,
    "required_matched_ratio": 0.9, "timeout_seconds": 44.0, "build_timeout_seconds": 55.0, "threads": 3,
    "seed": 5, "arch": "sm_90", "clock": "wall", "cache": "cold", "label": "nightly",
    "use_isolated_runner": True, "audit": False, "profile_baseline": False, "strict": True,
    "strict_hardware": True, "sandbox": "off", "max_precision_ratio": 8.0,
    "launch": "graph", "lock_clocks": True, "energy": True, "unseen": 7, "racing": True,
}  # fmt: skip
"""What has an option of `run`, none of it the default."""
FILE_ONLY = {
    "op_type_config", "definition_config", "disturbed_repeats", "max_error_cap", "extra",
    "sampling_validation_trials", "sampling_tvd_threshold", "log_dir",
}  # fmt: skip
GIVEN: dict[str, tuple[list[str], Any]] = {
    "definitions": (["--definitions", "a", "b"], ["a", "b"]), "solutions": (["--solutions", "a"], ["a"]),
    "op_types": (["--op-types", "a"], ["a"]), "authors": (["--authors", "a"], ["a"]),
    "workloads": (["--workloads", "a"], ["a"]), "workload_class": (["--workload-class", "all"], "all"),
    "warmup_runs": (["--warmup-runs", "0"], 0), "iterations": (["--iterations", "9"], 9),
    "num_trials": (["--num-trials", "1"], 1), "until_interval": (["--until-interval", "1%"], 0.01),
    "time_budget_seconds": (["--time-budget", "2s"], 2.0), "rtol": (["--rtol", "0.5"], 0.5),
    "atol": (["--atol", "0.5"], 0.5), "required_matched_ratio": (["--required-matched-ratio", "1"], 1.0),
    "timeout_seconds": (["--timeout", "9"], 9.0), "build_timeout_seconds": (["--build-timeout", "9"], 9.0),
    "threads": (["--threads", "1"], 1), "seed": (["--seed", "0"], 0), "arch": (["--arch", "sm_80"], "sm_80"),
    "clock": (["--clock", "auto"], "auto"), "cache": (["--cache", "hot"], "hot"),
    "label": (["--label", "mine"], "mine"), "sandbox": (["--sandbox", "process"], "process"),
    "max_precision_ratio": (["--max-precision-ratio", "2"], 2.0), "launch": (["--launch", "stream"], "stream"),
    "unseen": (["--unseen", "3"], 3),
}  # fmt: skip
FLAGS = {
    "use_isolated_runner": "--isolated", "audit": "--no-audit", "profile_baseline": "--no-profile-baseline",
    "strict": "--strict", "strict_hardware": "--strict-hardware", "lock_clocks": "--lock-clocks", "energy": "--energy",
    "racing": "--racing",
}  # fmt: skip
"""Flags can only say what the file says here; the default of each is the other way."""
NOT_SETTINGS = {
    "local", "hub", "output", "device", "pool", "config", "resume", "retry_failed", "save_results", "dry_run",
    "fail_fast", "exit_zero", "as_json", "log_level", "verbose", "progress",
}  # fmt: skip


@pytest.fixture
def settle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Give the settings of `run` with these arguments and this file."""
    found: list[BenchmarkConfig] = []

    def note(options: run_command.RunOptions) -> int:
        found.append(run_command._config(options))
        return 0

    def settings(content: dict[str, Any] | None, *arguments: str) -> BenchmarkConfig:
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(content))
        named = () if content is None else ("--config", str(path))
        result = CliRunner().invoke(cli, ["run", *named, *arguments])
        assert result.exit_code == 0, result.output
        return found.pop()

    monkeypatch.setattr(run_command, "_run", note)
    return settings


def test_every_option_and_every_setting_is_looked_at() -> None:
    options = {each.name for each in run_command.run.params if isinstance(each, click.Option)}

    assert options - NOT_SETTINGS == set(IN_THE_FILE)
    assert set(BenchmarkConfig.model_fields) == set(IN_THE_FILE) | FILE_ONLY
    assert set(GIVEN) | set(FLAGS) == set(IN_THE_FILE)


@pytest.mark.parametrize("name", IN_THE_FILE)
def test_what_no_option_says_is_the_files(settle: Any, name: str) -> None:
    default = getattr(BenchmarkConfig(), name)

    found = settle({name: IN_THE_FILE[name]})

    assert getattr(found, name) == IN_THE_FILE[name] != default


def test_all_settings_of_a_file_hold_together(settle: Any) -> None:
    assert settle(IN_THE_FILE) == BenchmarkConfig(**IN_THE_FILE)


@pytest.mark.parametrize("name", GIVEN)
def test_an_option_goes_before_the_file(settle: Any, name: str) -> None:
    arguments, value = GIVEN[name]

    found = settle(IN_THE_FILE, *arguments)

    assert getattr(found, name) == value != IN_THE_FILE[name]


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_goes_before_the_file(settle: Any, name: str) -> None:
    default = getattr(BenchmarkConfig(), name)

    found = settle({name: default}, FLAGS[name])

    assert getattr(found, name) == IN_THE_FILE[name] != default


@pytest.mark.parametrize("name", BenchmarkConfig.model_fields)
def test_python_and_command_line_have_the_same_defaults(settle: Any, name: str) -> None:
    found = settle(None)

    assert getattr(found, name) == getattr(BenchmarkConfig(), name)
    assert found.model_fields_set == BenchmarkConfig().model_fields_set == set()


def test_every_command_with_a_settings_file_is_looked_at() -> None:
    def takers(command: click.Command, path: str = "") -> list[str]:
        if isinstance(command, click.Group):
            context = click.Context(command)
            children = (
                (name, command.get_command(context, name))
                for name in command.list_commands(context)
            )
            return [
                taker for name, each in children if each for taker in takers(each, f"{path} {name}")
            ]
        return [path.strip()] if any("--config" in each.opts for each in command.params) else []

    assert takers(cli) == ["run", "check", "serve", "contest init", "validate"]


def test_validate_judges_by_the_file_whichever_check_runs_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text("rtol: 0.125\nclock: wall\niterations: 1000\n")
    seen: list[BenchmarkConfig] = []

    def note(_: Any, config: BenchmarkConfig, **__: Any) -> None:
        seen.append(config)
        raise WorkerError("seen enough")

    monkeypatch.setattr("flashinfer_bench.bench.Benchmark", note)
    options = validate.ValidateOptions(
        dataset=str(DATASET),
        config=str(tmp_path / "config.yaml"),
        checks=("benchmark",),
        definitions=("gemm_n8",),
    )

    report = validate.run_validation(options)

    assert [(each.rtol, each.clock, each.iterations) for each in seen] == [(0.125, "wall", 5)]
    assert "seen enough" in report.to_json()
