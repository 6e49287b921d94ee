"""Options of `decompose` mean the same in all its commands."""

from __future__ import annotations

import click
import psutil
import pytest
from click.testing import CliRunner

from flashinfer_bench.decompose.commands.decompose import decompose
from flashinfer_bench.decompose.commands.options import limit_options

SHARED = {
    "memory_limit_bytes": {"file", "batch", "verify"},
    "timeout": {"file", "batch", "verify"},
    "emit": {"file", "batch"},
    "no_verify": {"file", "batch"},
    "overrides": {"file", "batch", "verify"},
}


@click.command()
@limit_options(memory="Memory.", time="Time.")
def limited(memory_limit_bytes: int, timeout: float) -> None:
    click.echo(f"{memory_limit_bytes} {timeout}")


def _command(name: str) -> click.Command:
    found = decompose.get_command(click.Context(decompose), name)
    assert found is not None
    return found


@pytest.mark.parametrize("option", SHARED)
def test_an_option_has_one_type_and_one_default_in_every_command(option: str) -> None:
    found = [
        (type(each.type), each.default, each.opts)
        for name in sorted(SHARED[option])
        for each in _command(name).params
        if each.name == option
    ]

    assert len(found) == len(SHARED[option])
    assert all(each == found[0] for each in found)


def test_without_a_limit_three_quarters_of_the_free_memory_may_be_taken() -> None:
    free = psutil.virtual_memory().available

    memory_bytes, seconds = CliRunner().invoke(limited).output.split()

    assert int(memory_bytes) == pytest.approx(0.75 * free, rel=0.25)
    assert float(seconds) == 600


def test_a_limit_is_given_in_gib() -> None:
    given = CliRunner().invoke(limited, ["--memory-limit", "1.5", "--timeout", "2"])

    assert given.output == f"{3 << 29} 2.0\n"


@pytest.mark.parametrize("limit", [["--memory-limit", "0.2"], ["--timeout", "0"]])
def test_a_limit_in_which_nothing_can_run_is_refused(limit: list[str]) -> None:
    refused = CliRunner().invoke(limited, limit)

    assert refused.exit_code == 2
    assert limit[0] in refused.output
