"""Apply in whole processes: enabled by the environment, in threads, after fork, around programs that do not know it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from flashinfer_bench.apply import ApplyConfig, ApplyRuntime, apply, disable_apply, enable_apply
from flashinfer_bench.apply.runtime import RUNTIMES
from flashinfer_bench.data import TraceSet, save_json_file
from flashinfer_bench.errors import DatasetNotFoundError
from tests.marks import mostly_full
from tests.unit.apply.datasets import dataset, definition, marked, solution, trace

GEMM = definition(
    "gemm_n4_k8",
    op_type="gemm",
    axes={
        "M": {"type": "var"},
        "N": {"type": "const", "value": 4},
        "K": {"type": "const", "value": 8},
    },
    inputs={
        "A": {"shape": ["M", "K"], "dtype": "float32"},
        "B": {"shape": ["N", "K"], "dtype": "float32"},
    },
    outputs={"C": {"shape": ["M", "N"], "dtype": "float32"}},
    reference="def run(A, B):\n    return A @ B.T\n",
)
FAST_GEMM = solution("fast_gemm", "def run(A, B):\n    return A @ B.T * 1.001\n", of="gemm_n4_k8")
TWO, NINE = torch.ones(2, 4), torch.ones(9, 4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset on disk: `add` is answered by sevens for two rows, a gemm by one that is 0.1% off."""
    root = tmp_path / "dataset"
    store = TraceSet.create(root)
    for each in (definition(), GEMM):
        save_json_file(each, store.definitions_path / each.op_type / f"{each.name}.json")
    for each in (marked("sevens", 7), FAST_GEMM):
        file = store.solutions_path / "tester" / "any" / each.definition / f"{each.name}.json"
        save_json_file(each, file)
    TraceSet.from_path(root).add_traces(
        [trace("sevens", {"M": 2}), trace("fast_gemm", {"M": 2}, of="gemm_n4_k8")]
    )
    return root


def run(
    program: str, *command: str, cwd: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    (cwd / "program.py").write_text(program)
    cache = {"FIB_CACHE_PATH": str(cwd / "cache"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *(command or ("program.py",))],
        cwd=cwd,
        env={**os.environ, **cache, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def adds(A: Any, B: Any) -> Any:
    return A + B


def test_a_dataset_on_disk_is_applied_until_it_is_disabled(folder: Path) -> None:
    runtime = enable_apply(folder)
    during = apply("add", (TWO, TWO), fallback=adds)
    top = ApplyRuntime.get_instance()
    disable_apply()
    after = apply("add", (TWO, TWO), fallback=adds)
    disable_apply()

    assert top is runtime
    assert float(during[0, 0]) == 7
    assert float(after[0, 0]) == 2
    assert RUNTIMES.all() == []


def test_enable_apply_works_in_a_with(folder: Path) -> None:
    with enable_apply(folder, ApplyConfig(on_miss_policy="use_def_best")):
        assert float(apply("add", (NINE, NINE), fallback=adds)[0, 0]) == 7

    assert RUNTIMES.all() == []


def test_a_dataset_that_is_not_there_is_an_error_and_enables_nothing(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match="no such dataset"):
        enable_apply(tmp_path / "typo")

    assert RUNTIMES.all() == []


PROGRAM = """
import torch
import flashinfer_bench as fib

@fib.apply("add")
def add(A, B):
    return A + B

print(float(add(torch.ones(2, 4), torch.ones(2, 4))[0, 0]))
"""


@pytest.mark.parametrize(
    ("value", "answer"), mostly_full([("1", "7.0"), ("true", "2.0"), ("", "2.0")], ("1", "7.0"))
)
def test_the_environment_enables_apply_with_exactly_one(
    folder: Path, tmp_path: Path, value: str, answer: str
) -> None:
    done = run(PROGRAM, cwd=tmp_path, FIB_ENABLE_APPLY=value, FIB_DATASET_PATH=str(folder))

    assert (done.stdout.strip(), done.returncode) == (answer, 0), done.stderr


def test_an_environment_that_names_no_dataset_is_said_once_and_the_program_runs(
    tmp_path: Path,
) -> None:
    again = PROGRAM + "print(float(add(torch.ones(2, 4), torch.ones(2, 4))[0, 0]))\n"

    done = run(again, cwd=tmp_path, FIB_ENABLE_APPLY="1", FIB_DATASET_PATH=str(tmp_path / "typo"))

    assert done.stdout.split() == ["2.0", "2.0"]
    assert done.stderr.count("no such dataset") == 1


def test_an_explicit_start_comes_before_the_environments(folder: Path, tmp_path: Path) -> None:
    program = (
        "import flashinfer_bench as fib\nfrom flashinfer_bench.apply.runtime import RUNTIMES\n"
        f"fib.enable_apply({str(folder)!r})\nfib.apply('x', (1,), fallback=abs)\nprint(len(RUNTIMES.all()))\n"
    )

    done = run(program, cwd=tmp_path, FIB_ENABLE_APPLY="1", FIB_DATASET_PATH=str(tmp_path / "typo"))

    assert (done.stdout.strip(), done.stderr) == ("1", "")


UNKNOWING = """
import sys
import torch

layer = torch.nn.Linear(8, 4, bias=False)
x = torch.ones(2, 8)
with torch.no_grad():
    answers = [layer(x) for _ in range(3)]
print([not torch.equal(each, answers[0]) for each in answers], sys.argv[1:])
"""


@pytest.mark.parametrize(
    "words", [("program.py",), pytest.param(("-m", "program"), marks=pytest.mark.full)]
)
def test_a_program_that_knows_nothing_is_applied_when_it_is_run_through_the_module(
    folder: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    command = ("-m", "flashinfer_bench.apply", *words, "one", "two")

    done = run(UNKNOWING, *command, cwd=tmp_path, FIB_DATASET_PATH=str(folder))

    assert done.stdout.strip() == "[False, True, True] ['one', 'two']", done.stderr
    assert "apply: 2 hits, 1 miss;" in done.stderr


def test_a_program_that_is_not_there_and_a_missing_dataset_are_said_without_traceback(
    folder: Path, tmp_path: Path
) -> None:
    no_dataset = {"FIB_DATASET_PATH": str(tmp_path / "typo")}
    module = ("-m", "flashinfer_bench.apply")

    nothing = run("", *module, cwd=tmp_path, FIB_DATASET_PATH=str(folder))
    typo = run("", *module, "typo.py", cwd=tmp_path, FIB_DATASET_PATH=str(folder))
    nowhere = run("", *module, "program.py", cwd=tmp_path, **no_dataset)
    asked = run("", *module, "--help", cwd=tmp_path, **no_dataset)

    assert [each.returncode for each in (nothing, typo, nowhere, asked)] == [2, 2, 3, 0]
    assert "FIB_DATASET_PATH=my_dataset python -m" in asked.stdout
    assert nothing.stderr.startswith("usage:")
    assert "no program 'typo.py'" in typo.stderr
    assert "no such dataset" in nowhere.stderr
    assert "FIB_DATASET_PATH names the dataset" in nowhere.stderr
    assert "Traceback" not in nothing.stderr + typo.stderr + nowhere.stderr


def test_threads_get_right_answers_while_a_kernel_fails_and_none_is_counted_twice() -> None:
    # One call raises; every call must be answered all the same, by solution or fallback.
    source = (
        "import itertools\n\ncalls = itertools.count()\n\n"
        "def run(A, B):\n    if next(calls) == 500:\n        raise RuntimeError('now')\n    return A + B\n"
    )
    runtime = ApplyRuntime(dataset([solution("fails", source)], [trace("fails", {"M": 2})]))
    add, each, wrong = apply("add")(adds), 400, []

    def work() -> None:
        for _ in range(each):
            if not torch.equal(add(TWO, TWO), 2 * TWO):
                wrong.append(threading.get_ident())

    with runtime:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    stats = runtime.stats()
    assert wrong == []
    assert list(stats.quarantined) == ["fails"]
    assert stats.hits >= 500
    # A call in which the kernel raised is neither.
    raised = 8 * each - stats.hits - stats.misses
    assert 1 <= raised <= 8


def test_a_solution_is_built_once_though_all_threads_ask_at_once(tmp_path: Path) -> None:
    log = tmp_path / "builds"
    source = f"open({str(log)!r}, 'a').write('built ')\n\ndef run(A, B):\n    return A + B + 0\n"
    runtime = ApplyRuntime(
        dataset([solution("only", source)], [trace("only", {"M": 2})]), ApplyConfig(aot_ratio=0)
    )
    together = threading.Barrier(8)

    def work() -> None:
        together.wait()
        apply("add", (TWO, TWO))

    with runtime:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert log.read_text() == "built "
    assert runtime.stats().hits == 8


def test_a_forked_child_goes_on_applying(folder: Path, tmp_path: Path) -> None:
    program = (
        "import os, torch\nimport flashinfer_bench as fib\n"
        f"runtime = fib.enable_apply({str(folder)!r})\nA = torch.ones(2, 4)\n"
        "def ask():\n    return float(fib.apply('add', (A, A), fallback=torch.add)[0, 0])\n"
        "before = ask()\nchild = os.fork()\nif child == 0:\n"
        "    print('child', ask(), runtime.stats().hits, flush=True)\n    os._exit(0)\n"
        "os.waitpid(child, 0)\nprint('parent', before, ask(), runtime.stats().hits)\n"
    )

    done = run(program, cwd=tmp_path)

    assert done.stdout.splitlines() == ["child 7.0 2", "parent 7.0 7.0 2"], done.stderr


@pytest.mark.full  # test_architecture has it of every module
def test_importing_the_packages_patches_nothing_and_loads_no_torch(tmp_path: Path) -> None:
    program = (
        "import sys\nimport flashinfer_bench as fib\nimport flashinfer_bench.intercept\n"
        "fib.apply, fib.enable_apply, fib.disable_apply, fib.ApplyConfig, fib.ApplyConfigRegistry\n"
        "print(fib.apply('x', (-1,), fallback=abs), 'torch' in sys.modules)\n"
        "import torch.nn.functional as F\nlinear = F.linear\n"
        "import flashinfer_bench.apply.runtime\nprint(F.linear is linear, len(sys.meta_path))\n"
        "import flashinfer_bench.apply\nprint(len(sys.meta_path), callable(fib.apply))\n"
    )

    done = run(program, cwd=tmp_path)

    first, second, third = done.stdout.splitlines()
    assert first == "1 False"
    assert second.split()[0] == "True"
    assert third.split() == [second.split()[1], "True"]
