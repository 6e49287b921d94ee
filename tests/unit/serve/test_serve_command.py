"""Which settings a server has: those of the file, beneath the options; solutions are sandboxed or do not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.bench import BenchmarkConfig
from flashinfer_bench.serve import running
from tests.commands import call
from tests.flow.kernels import write_dataset


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ([], {}),
        (["--config", "FILE"], {"iterations": 7, "rtol": 0.5}),
        (["--config", "FILE", "--iterations", "3"], {"iterations": 3, "rtol": 0.5}),
        (["--sandbox", "process"], {"sandbox": "process"}),
    ],
    ids=["none", "file", "option", "sandbox"],
)
def test_the_settings_of_a_server(
    words: list[str], settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("iterations: 7\nrtol: 0.5\n")
    root = write_dataset(tmp_path / "dataset")
    found: list[BenchmarkConfig] = []
    monkeypatch.setattr(running, "serve", lambda _, config, *__: found.append(config))

    done = call(
        *("serve", "--local", root, "--no-worker"),
        *(str(file) if word == "FILE" else word for word in words),
    )

    assert done.returncode == 0, done.stderr
    assert found == [BenchmarkConfig(**{"sandbox": "required", **settings})]
