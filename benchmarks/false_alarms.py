"""How often an honest solution is accused: many quick runs of every look-alike of the attack suite.

A run is one job as `run --num-trials 1 --iterations 10` plays it. Runs of one look-alike come in groups: each group has
a process and a key of its own: inputs and checked calls differ from group to group, and what the machine does differs
from run to run. Printed are the runs, the accusations, and the largest rate that would show so few with 5% probability
(Clopper and Pearson, one-sided). Bar: none in 200 runs of each. `--write` keeps the figures for docs/attacks.md.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from flashinfer_bench.attacks.running import QUICK, victims_with
from flashinfer_bench.attacks.suite import FOLDER, Entry, entries
from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.bench.plan import Plan, Selection

if TYPE_CHECKING:
    from flashinfer_bench.bench.benchmark import Step
    from flashinfer_bench.bench.plan import Job

SETTINGS = {**QUICK, "warmup_runs": 10, "iterations": 10, "num_trials": 1}
RESULT = FOLDER / "false_alarms.json"
CONFIDENCE = 0.95
_BISECTIONS = 60


def upper_bound(accused: int, runs: int) -> float:
    """Give the largest rate at which so few accusations still have a probability of 5%.

    >>> round(upper_bound(0, 200), 4), round(upper_bound(1, 200), 4)
    (0.0149, 0.0235)
    """
    low, high = accused / runs, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        is_likely = _at_most(accused, runs, middle) > 1 - CONFIDENCE
        low, high = (middle, high) if is_likely else (low, middle)
    return high


def _at_most(count: int, runs: int, rate: float) -> float:
    """Probability of at most so many accusations."""
    if rate >= 1.0:
        return 0.0
    return sum(
        math.exp(
            math.lgamma(runs + 1) - math.lgamma(k + 1) - math.lgamma(runs - k + 1)
            + k * math.log(rate) + (runs - k) * math.log1p(-rate)
        )
        for k in range(count + 1)
    ) if rate > 0 else 1.0  # fmt: skip


def jobs(job: Job, runs: int, group: int) -> Plan:
    """Plan the runs of one look-alike; each group has another name, so another process and another key."""
    named = [
        replace(job, solution=job.solution.model_copy(update={"name": f"{job.solution.name}-{n // group}"}))
        for n in range(runs)
    ]  # fmt: skip
    return Plan(tuple(named))


def accusation(step: Step) -> str | None:
    """Say what an honest solution was accused of, if it was."""
    evaluation = step.trace.evaluation if step.trace else None
    if evaluation is None:
        return f"no trace: {step.outcome}"
    if evaluation.status == "PASSED":
        return None
    extra = (evaluation.correctness.extra if evaluation.correctness else None) or {}
    codes = ", ".join(
        f"{each['code']} ({each['evidence']})" for each in extra.get("violations", ())
    )
    return f"{evaluation.status} {codes or evaluation.log.strip()[:200]}"


def play(benchmark: Benchmark, entry: Entry, runs: int, group: int) -> tuple[int, list[str]]:
    """Run one look-alike; return how many runs there were, and the accusations."""
    planned = benchmark.plan(selection=Selection(solutions=(entry.name,)))
    if not planned.jobs:
        return 0, []
    steps = benchmark.run(jobs(planned.jobs[0], runs, group), dump_traces=False)
    found = [accusation(step) for step in steps]
    return len(found), [each for each in found if each is not None]


def main() -> None:
    """Run all look-alikes and print a line for each, then the sum."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument(
        "--group",
        type=int,
        default=10,
        help="runs per process; five times as many where it compiles",
    )
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--no-slow", action="store_true", help="leave torch.compile out")
    parser.add_argument("--write", action="store_true", help="keep the figures for docs/attacks.md")
    given = parser.parse_args()

    suite = [e for e in entries(only=given.only, with_slow=not given.no_slow) if not e.is_hostile]
    kind = given.device.partition(":")[0]
    suite = [entry for entry in suite if kind in entry.devices]
    config = BenchmarkConfig.default(**{**SETTINGS, "threads": given.threads})
    total, accused, reasons = 0, 0, Counter[str]()
    began_s = time.monotonic()
    with (
        victims_with(suite) as dataset,
        Benchmark(dataset, config, device=given.device) as benchmark,
    ):
        for entry in suite:
            started_s = time.monotonic()
            runs, found = play(
                benchmark, entry, given.runs, given.group * (5 if entry.is_slow else 1)
            )
            total, accused = total + runs, accused + len(found)
            reasons.update(found)
            print(
                f"{entry.name:28} {runs:5} runs {len(found):3} accused {time.monotonic() - started_s:6.1f} s",
                flush=True,
            )
            for reason, count in Counter(found).most_common(3):
                print(f"    {count} x {reason}", flush=True)
    bound = upper_bound(accused, total)
    date = datetime.now(UTC).date().isoformat()
    print(
        f"{total} runs of {len(suite)} look-alikes, {accused} accused: below {bound:.3%} with 95% confidence; "
        f"{date}, {time.monotonic() - began_s:.0f} s"
    )
    if given.write:
        figures = {
            "date": date, "device": given.device, "look_alikes": len(suite), "runs": total,
            "accused": accused, "upper_bound": bound,
        }  # fmt: skip
        RESULT.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
