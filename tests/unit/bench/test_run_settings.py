"""One list of settings: what is made from it knows every one of them."""

from __future__ import annotations

from typing import Any

import click
import pytest

from flashinfer_bench.bench import BenchmarkConfig, EvalConfig, ResolvedEvalConfig
from flashinfer_bench.bench.config import config_hash
from flashinfer_bench.bench.run_settings import (
    JobSettings,
    KnownSetting,
    LayeredSettings,
    known_settings,
    settings_of,
)
from flashinfer_bench.cli.main import COMMANDS, cli

KNOWN = known_settings()
LAYERS = {"op_type_config", "definition_config"}


def another(known: KnownSetting) -> Any:
    """A legal value that is not the default."""
    if known.plain_type is bool:
        return not known.default
    if known.plain_type == dict[str, Any]:
        return {"mine": 1}
    return {"clock": "wall", "cache": "cold", "launch": "graph"}.get(known.name, 1)


def test_every_model_has_exactly_the_settings_of_the_list() -> None:
    assert set(BenchmarkConfig.model_fields) == {*KNOWN, *LAYERS}
    assert set(EvalConfig.model_fields) == set(settings_of(LayeredSettings))
    assert set(ResolvedEvalConfig.model_fields) == set(settings_of(JobSettings))


@pytest.mark.parametrize("known", settings_of(JobSettings).values(), ids=lambda each: each.name)
def test_a_resolved_setting_has_the_default_of_the_list(known: KnownSetting) -> None:
    assert getattr(ResolvedEvalConfig(), known.name) == known.default


@pytest.mark.parametrize("known", settings_of(JobSettings).values(), ids=lambda each: each.name)
def test_the_hash_knows_every_setting_that_is_not_hashed_elsewhere(known: KnownSetting) -> None:
    changed = ResolvedEvalConfig(**{known.name: another(known)})

    is_other = config_hash(changed) != config_hash(ResolvedEvalConfig())

    assert is_other == (known.setting.hashed != "elsewhere")


@pytest.mark.parametrize("known", KNOWN.values(), ids=lambda each: each.name)
def test_a_setting_says_what_it_means(known: KnownSetting) -> None:
    assert known.setting.help.endswith(".")


def options_of(name: str) -> dict[str, click.Option]:
    """The options of a command that are settings, by name."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return {
        str(each.name): each
        for each in command.params
        if isinstance(each, click.Option) and each.name in KNOWN
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_with_the_name_of_a_setting_is_that_setting(command: str) -> None:
    for name, option in options_of(command).items():
        if name in {"definitions", "op_types", "solutions", "authors"} and command != "run":
            continue  # which of a dataset's are looked at; nothing is run
        assert KNOWN[name].option in option.opts


def test_run_has_every_setting_that_has_an_option() -> None:
    assert set(options_of("run")) == {name for name, each in KNOWN.items() if each.option}
