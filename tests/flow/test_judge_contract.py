"""The contract for training loops: what kernels of every kind are worth, and when there is no verdict."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.cli.document_schemas import document_schema
from flashinfer_bench.errors import DeviceError, UsageError
from flashinfer_bench.rl import JudgeBudget, KernelJudge
from flashinfer_bench.rl.feedback import MOST_BYTES
from tests.commands import call
from tests.flow.kernels import HONEST, INCREMENT, QUICK, dataset, write_dataset
from tests.golden.test_document_schemas import faults

if TYPE_CHECKING:
    from flashinfer_bench.bench.benchmark import Step
    from flashinfer_bench.bench.plan import Plan

SIZES = (1000, 2000, 3000, 4000, 5000)
WRONG = "def run(x):\n    return x + 2\n"
UNBUILDABLE = "def run(x:\n"
CHEATING = "def run(x):\n    y = x + 1\n    x.zero_()\n    return y\n"
SLOW = "import time\n\ndef run(x):\n    time.sleep(0.003)\n    return x + 1\n"


@pytest.fixture(scope="module")
def judging() -> Iterator[KernelJudge]:
    made = KernelJudge(dataset(sizes=SIZES), device="cpu", config=BenchmarkConfig.default(**QUICK))
    with made as judge:
        yield judge


def test_kernels_of_every_kind_are_told_apart(judging: KernelJudge) -> None:
    codes = [HONEST, WRONG, UNBUILDABLE, CHEATING, SLOW]

    honest, wrong, unbuilt, cheating, slow = judging.judge_all(codes, "increment")

    assert (honest.built, honest.right, honest.tried) == (True, True, honest.total)
    assert honest.reward is not None
    assert 0.5 < honest.reward <= 1
    assert (wrong.built, wrong.right, wrong.reward) == (True, False, 0.1)
    assert (unbuilt.built, unbuilt.reward, unbuilt.tried) == (False, 0.0, 1)
    assert cheating.reward == -1.0
    assert cheating.violations
    assert slow.tried == 1
    assert slow.stopped is not None
    assert slow.stopped.startswith("on the first workload it is slower")
    assert slow.reward is not None
    assert 0.1 < slow.reward < honest.reward


def test_equal_content_is_judged_once_whatever_its_file_is_called(
    judging: KernelJudge, tmp_path: Path
) -> None:
    source = f"{HONEST}# again\n"
    files = [tmp_path / "one.py", tmp_path / "another.py"]
    for file in files:
        file.write_text(source)

    first, second, third = judging.judge_all([source, *files], "increment")

    assert [each.is_duplicate for each in (first, second, third)] == [False, True, True]
    assert first.reward == second.reward == third.reward
    assert first.cost.device_seconds > 0
    assert first.cost.builds > 0
    assert (second.cost.device_seconds, second.cost.builds) == (0, 0)


def test_nothing_of_a_sealed_workload_is_told(judging: KernelJudge) -> None:
    verdict = judging.judge(
        "def run(x):\n    raise ValueError(f'size {len(x)}')\n", "increment", "test"
    )

    assert verdict.reward == 0.1
    assert verdict.workloads == ()
    assert "size" not in verdict.feedback
    assert "n=" not in verdict.feedback


def test_feedback_names_the_fault_and_is_bounded(judging: KernelJudge) -> None:
    noisy = "def run(x):\n    raise ValueError('long ' + 'é' * 90000)\n"

    verdict = judging.judge(noisy, "increment")

    assert "ValueError" in verdict.feedback
    assert len(verdict.feedback.encode()) <= MOST_BYTES


def test_a_spent_budget_is_no_verdict_on_a_faster_kernel_and_a_verdict_on_a_slower_one() -> None:
    """The reference sleeps 20 ms: one kernel does not, and one sleeps 30 ms, which is no clear loss."""
    waiting = "import time\n\ndef run(x):\n    time.sleep({})\n    return x + 1\n"
    definition = INCREMENT.model_copy(update={"reference": waiting.format(0.02)})
    held = dataset(sizes=SIZES, definition=definition)

    with KernelJudge(held, device="cpu", config=BenchmarkConfig.default(**QUICK)) as judge:
        faster, slower = judge.judge_all(
            [HONEST, waiting.format(0.03)], "increment", budget=JudgeBudget(device_seconds=1e-9)
        )
        enough = judge.judge(HONEST, "increment")

    assert (faster.reward, faster.cause) == (None, "budget")
    assert "raise the budget" in str(faster.no_verdict)
    assert (slower.cause, slower.tried, slower.right) == (None, 1, False)
    assert "device seconds were spent after 1 workloads" in str(slower.stopped)
    assert slower.reward == pytest.approx(0.1 + 0.4 / 3)
    assert (enough.right, enough.tried) == (True, 3)


@pytest.mark.parametrize(("name", "said"), [("tset", "did you mean 'test'"), ("", "no split")])
def test_an_unknown_split_is_a_usage_error(judging: KernelJudge, name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        judging.judge(HONEST, "increment", name)


def test_killed_servers_are_no_verdict_and_the_next_kernel_is_judged() -> None:
    """The process that starts workers is killed again and again while a kernel is judged."""
    source = "import time\n\ndef run(x):\n    time.sleep(0.05)\n    return x + 1\n"
    is_over = threading.Event()
    before = {each.pid for each in psutil.Process().children()}

    def kill_servers() -> None:
        while not is_over.wait(0.2):
            for child in psutil.Process().children():
                if child.pid not in before:
                    os.kill(child.pid, signal.SIGKILL)

    config = BenchmarkConfig.default(**QUICK)
    with KernelJudge(dataset(sizes=SIZES), device="cpu", config=config) as judge:
        killer = threading.Thread(target=kill_servers)
        killer.start()
        lost = judge.judge(source, "increment")
        is_over.set()
        killer.join()
        later = judge.judge(HONEST, "increment")

    assert (lost.reward, lost.cause) == (None, "worker"), lost
    assert later.right


def test_a_lost_device_is_no_verdict() -> None:
    held = dataset(sizes=SIZES)

    with KernelJudge(held, device="cuda:99") as judge:
        lost = judge.judge(HONEST, "increment")

    assert (lost.reward, lost.cause) == (None, "device")
    assert lost.no_verdict is not None
    assert "cuda:99" in lost.no_verdict


def test_a_device_that_goes_away_between_two_jobs_is_no_verdict_and_strikes_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a CPU cannot do is done for it: the engine's own error comes where the second job would have begun."""
    runs_on = Benchmark.run
    is_gone = False

    def run(self: Benchmark, plan: Plan, **options: Any) -> Iterator[Step]:
        nonlocal is_gone
        for step in runs_on(self, plan, **options):
            yield step
            if not is_gone:
                is_gone = True
                raise DeviceError("cuda:0 has fallen off the bus")

    monkeypatch.setattr(Benchmark, "run", run)
    with KernelJudge(
        dataset(sizes=SIZES), device="cpu", config=BenchmarkConfig.default(**QUICK)
    ) as judge:
        both = judge.judge_all([WRONG, WRONG.replace("2", "3")], "increment")
        later = judge.judge(HONEST, "increment")

    (lost,) = [each for each in both if each.no_verdict is not None]
    (other,) = [each for each in both if each.no_verdict is None]
    assert (lost.reward, lost.cause) == (None, "device")
    assert "fallen off the bus" in str(lost.no_verdict)
    assert other.reward == 0.1
    assert later.right


def test_the_command_prints_a_document_that_its_schema_describes(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "ds", sizes=SIZES)
    file = tmp_path / "wrong.py"
    file.write_text(WRONG)

    done = call(
        *("judge", file, "--definition", "increment", "--local", root),
        *("--device", "cpu", "--json"),
    )

    document = json.loads(done.stdout)
    schema = document_schema("judge")
    assert done.returncode == 1, done.stderr
    assert document["verdicts"][0]["reward"] == 0.1
    assert list(faults(document, schema, schema, "")) == []
