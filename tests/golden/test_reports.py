"""What the reading commands say about a small dataset of hand-made traces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from flashinfer_bench.bench import benchmark
from flashinfer_bench.cli.main import cli

KINDS = ("definitions", "solutions", "workloads", "traces")
COMMANDS = {
    "summary.txt": ["report", "summary"],
    "summary.json": ["report", "summary", "--json"],
    "summary-mixed.txt": ["report", "summary", "--mix-hardware"],
    "summary-against-alice.txt": ["report", "summary", "--baseline-author", "alice"],
    "best.txt": ["report", "best"],
    "best.json": ["report", "best", "--json"],
    "best-mixed.txt": ["report", "best", "--mix-hardware"],
    "best-within-bounds.txt": ["report", "best", "--max-abs-error", "1e-4"],
    "best-beyond-bounds.txt": ["report", "best", "--max-rel-error", "1e-9"],
    "pareto.txt": ["report", "pareto"],
    "pareto.json": ["report", "pareto", "--json"],
    "visualize.txt": ["report", "visualize"],
    "visualize-ascii.txt": ["report", "visualize", "--ascii", "--width", "72"],
    "visualize-gemm.txt": ["report", "visualize", "--definitions", "gemm*"],
    "visualize-gemm.json": ["report", "visualize", "--definitions", "gemm*", "--json"],
    "visualize-mixed.txt": ["report", "visualize", "--mix-hardware"],
    "list.txt": ["list"],
    "list-all.txt": ["list", *KINDS, "--definition", "gemm_n8"],
    "list.json": ["list", *KINDS, "--definition", "gelu_h8", "--json"],
    "show.txt": ["show", "gemm_n8", "gemm_n8_bob", "gemm_n8-w1"],
    "show.json": ["show", "gelu_h8", "gelu_h8_alice", "gelu_h8-w1", "--json"],
    "plan.txt": ["run", "--dry-run", "--device", "cpu"],
    "plan.json": ["run", "--dry-run", "--device", "cpu", "--json", "--authors", "alice"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_said(
    name: str, dataset: Path, compare: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "hardware_of", lambda _: "AMD EPYC")  # a plan names the machine
    said = CliRunner().invoke(cli, [*COMMANDS[name], "--local", str(dataset)])

    assert said.exit_code == 0
    compare(name, said.stdout)


def test_an_empty_dataset_is_reported_too(
    tmp_path: Path, compare: Callable[[str, str], None]
) -> None:
    said = [
        CliRunner().invoke(cli, ["report", name, "--local", str(tmp_path)]).stdout
        for name in ("summary", "best", "visualize")
    ]

    compare("empty.txt", "\n".join(said))


@pytest.mark.parametrize(("author", "exit_code"), [("alise", 2), ("alice", 0)])
def test_a_mistyped_author_brings_the_nearest(author: str, exit_code: int, dataset: Path) -> None:
    arguments = ["report", "summary", "--local", str(dataset), "--baseline-author", author]

    said = CliRunner().invoke(cli, arguments)

    assert said.exit_code == exit_code
    assert said.stderr == "error: no author named 'alise'; did you mean 'alice'?\n" * (
        exit_code > 0
    )


def test_what_cannot_be_done_is_a_document_with_its_error(
    dataset: Path, compare: Callable[[str, str], None]
) -> None:
    said = CliRunner().invoke(cli, ["show", "gemm_8", "--local", str(dataset), "--json"])

    assert said.exit_code == 2
    compare("error-usage.json", said.stdout)
