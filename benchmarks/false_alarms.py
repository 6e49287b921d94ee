"""How often an honest solution is accused, or suspected: many quick plays of every look-alike of the attack suite.

A play is one job as `run --num-trials 1 --iterations 10` plays it, with a key of its own. A look-alike's sizes take
turns within a process; every `--group` plays a fresh process starts, and what it compiled before serves it again. What
compiles for long stays in one process. An *accusation* is an end other than PASSED. A *suspicion* is a job that was
played again before it ended: it costs time, and is what accusations are made of.

`--output FILE` keeps the counts as JSON after every group; called again, it goes on where the file ends. Start another
file when the rules have changed. `--shard 2/4` plays every fourth look-alike, and `--merge FILE...` adds up what shards
have written. Shards on one machine take turns at the device; with `--beside` they do not, and disturb each other.

Printed are plays, accusations, suspicions and seconds of each look-alike, and the largest rate of accusations that
would show so few with 5% probability (Clopper and Pearson, one-sided). `--write` keeps the sum for docs/attacks.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import secrets
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashinfer_bench.attacks.running import QUICK, victims_with
from flashinfer_bench.attacks.suite import FOLDER, Entry, entries
from flashinfer_bench.bench import Benchmark, BenchmarkConfig
from flashinfer_bench.bench.outcomes import Skipped
from flashinfer_bench.bench.plan import Plan, Selection, axes_text
from flashinfer_bench.data import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from flashinfer_bench.bench.benchmark import Step
    from flashinfer_bench.bench.jobs import Job

SETTINGS = {**QUICK, "warmup_runs": 10, "iterations": 10, "num_trials": 1}
RESULT = FOLDER / "false_alarms.json"
CONFIDENCE = 0.95
PLAYED_AGAIN = "played again because of "
"""How a line of a log begins that tells of a suspicion: a code and its evidence follow."""
_BISECTIONS = 60
_MOST_EXAMPLES = 5
_MOST_TIMES = 200


@dataclass
class Count:
    """What was seen of one look-alike."""

    source: str = ""
    """Digest of its file: another source is counted anew."""
    plays: dict[str, int] = field(default_factory=dict)
    """By size."""
    accused: dict[str, int] = field(default_factory=dict)
    """By status and codes."""
    suspected: int = 0
    """Plays that were suspect at first, whatever became of them."""
    suspicions: dict[str, int] = field(default_factory=dict)
    """By code; a play may have several."""
    examples: list[str] = field(default_factory=list)
    """The last suspicions and accusations, in words."""
    first_s: list[float] = field(default_factory=list)
    """Seconds of the first play of a process, which builds and compiles."""
    play_s: list[float] = field(default_factory=list)
    """Seconds of the others; the last ones."""
    not_played_because: str | None = None

    @property
    def total(self) -> int:
        """Plays on all sizes."""
        return sum(self.plays.values())

    @property
    def accused_total(self) -> int:
        """Plays that did not pass."""
        return sum(self.accused.values())

    def add(self, step: Step, seconds: float, *, is_first: bool) -> None:
        """Count one play."""
        size = axes_text(step.job.workload.axes)
        self.plays[size] = self.plays.get(size, 0) + 1
        times = self.first_s if is_first else self.play_s
        times.append(round(seconds, 3))
        del times[:-_MOST_TIMES]
        found, said = accusation(step), suspicions(step)
        if found is not None:
            code, words = found
            self.accused[code] = self.accused.get(code, 0) + 1
            self._note(f"accused on {size}: {code} {words}")
        self.suspected += bool(said)
        for line in said:
            code = line.partition(":")[0]
            self.suspicions[code] = self.suspicions.get(code, 0) + 1
            self._note(f"suspected on {size}: {line}")

    def absorb(self, other: Count) -> None:
        """Add what another shard or machine has counted."""
        for mine, theirs in (
            (self.plays, other.plays),
            (self.accused, other.accused),
            (self.suspicions, other.suspicions),
        ):
            for key, number in theirs.items():
                mine[key] = mine.get(key, 0) + number
        self.suspected += other.suspected
        self.first_s += other.first_s
        self.play_s += other.play_s
        self.not_played_because = self.not_played_because or other.not_played_because
        for example in other.examples:
            self._note(example)

    def line(self, name: str) -> str:
        """Sum up for people."""
        if self.not_played_because is not None and not self.total:
            return f"{name:26} not played: {self.not_played_because}"
        first = statistics.median(self.first_s) if self.first_s else 0.0
        each = statistics.median(self.play_s) if self.play_s else first
        codes = ", ".join(f"{code} {n}" for code, n in sorted(self.suspicions.items()))
        return (
            f"{name:26} {self.total:5} plays {self.accused_total:3} accused {self.suspected:3} suspected "
            f"({self.suspected / max(1, self.total):6.1%})  first {first:5.1f} s, then {each:5.2f} s  {codes}"
        ).rstrip()

    def _note(self, example: str) -> None:
        self.examples.append(example)
        del self.examples[:-_MOST_EXAMPLES]


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


def shard_of(suite: Sequence[Entry], shard: str) -> list[Entry]:
    """Take the entries of a shard such as `2/4`; raise `ValueError` for what is none."""
    number, _, count = shard.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ValueError(f"{shard!r} is no shard; the second of four is 2/4")
    return list(suite[int(number) - 1 :: int(count)])


def accusation(step: Step) -> tuple[str, str] | None:
    """Say what an honest solution was accused of, if it was: a code, and what was seen."""
    evaluation = step.trace.evaluation if step.trace else None
    if evaluation is None:
        return "no trace", str(step.outcome)
    if evaluation.status == "PASSED":
        return None
    extra = (evaluation.correctness.extra if evaluation.correctness else None) or {}
    broken = extra.get("violations", ())
    codes = ", ".join(each["code"] for each in broken)
    seen = "; ".join(each["evidence"] for each in broken) or evaluation.log.strip()[:200]
    return f"{evaluation.status} {codes}".strip(), seen


def suspicions(step: Step) -> list[str]:
    """List why a job was played again, one `code: evidence` a time."""
    evaluation = step.trace.evaluation if step.trace else None
    lines = evaluation.log.splitlines() if evaluation else []
    return [
        line.removeprefix(PLAYED_AGAIN).strip() for line in lines if line.startswith(PLAYED_AGAIN)
    ]


def left_to_play(jobs: Sequence[Job], count: Count, runs: int) -> list[Job]:
    """List the plays that are missing, the sizes in turn, each with a key of its own."""
    missing = [runs - count.plays.get(axes_text(job.workload.axes), 0) for job in jobs]
    return [
        replace(job, key=secrets.randbits(64))
        for turn in range(max(missing, default=0))
        for job, number in zip(jobs, missing, strict=True)
        if turn < number
    ]


def play(benchmark: Benchmark, jobs: Sequence[Job], count: Count) -> None:
    """Play jobs in one process; none of them where something is missing here."""
    is_first, started_s = True, time.monotonic()
    for step in benchmark.run(Plan(tuple(jobs)), dump_traces=False):
        if isinstance(step.outcome, Skipped):
            count.not_played_because = step.outcome.reason
            continue
        count.add(step, time.monotonic() - started_s, is_first=is_first)
        is_first, started_s = False, time.monotonic()
    benchmark.get_trace_set().traces.clear()  # counted: thousands more will come


def play_all(
    benchmark: Benchmark,
    suite: Sequence[Entry],
    counts: dict[str, Count],
    *,
    runs: int,
    group: int,
    keep: Callable[[], None],
) -> None:
    """Play every look-alike until each of its sizes was played so often; keep the counts after every group."""
    for entry in suite:
        source = hashlib.sha256(entry.source.encode()).hexdigest()[:12]
        count = counts.get(entry.name)
        if count is None or count.source != source:
            count = counts[entry.name] = Count(source)
        planned = benchmark.plan(selection=Selection(solutions=(entry.name,)))
        count.not_played_because = None
        jobs = left_to_play(planned.jobs, count, runs)
        size = len(jobs) if entry.is_slow else group
        for start in range(0, len(jobs), max(1, size)):
            play(benchmark, jobs[start : start + size], count)
            keep()
            if count.not_played_because is not None:
                break
        print(count.line(entry.name), flush=True)


def read(file: Path, made_with: dict[str, Any]) -> dict[str, Count]:
    """Read what an earlier call has counted; exit when it was counted under other conditions."""
    if not file.exists():
        return {}
    found = json.loads(file.read_text(encoding="utf-8"))
    if found["made_with"] != made_with:
        sys.exit(
            f"{file} was made with {found['made_with']}, not with {made_with}: name another file"
        )
    return {name: Count(**count) for name, count in found["look_alikes"].items()}


def save(file: Path, made_with: dict[str, Any], counts: dict[str, Count]) -> None:
    """Write the counts, whole or not at all."""
    text = json.dumps(
        {
            "made_with": made_with,
            "sum": figures(counts, made_with),
            "look_alikes": {name: asdict(count) for name, count in sorted(counts.items())},
        },
        indent=1,
    )
    draft = file.with_suffix(file.suffix + ".new")
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(file)


def merged(files: Iterable[Path]) -> tuple[dict[str, Any], dict[str, Count]]:
    """Add up what several calls have counted."""
    made_with: dict[str, Any] = {}
    counts: dict[str, Count] = {}
    for file in files:
        found = json.loads(file.read_text(encoding="utf-8"))
        made_with = made_with or found["made_with"]
        for name, each in found["look_alikes"].items():
            other = Count(**each)
            mine = counts.setdefault(name, Count(other.source))
            if mine.source != other.source:
                sys.exit(f"{file} counted another {name} than the files before it")
            mine.absorb(other)
    return made_with, counts


def figures(counts: dict[str, Count], made_with: dict[str, Any]) -> dict[str, Any]:
    """Sum up what docs/attacks.md says."""
    played = [count for count in counts.values() if count.total]
    runs = sum(count.total for count in played)
    accused = sum(count.accused_total for count in played)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "device": made_with["device"],
        "look_alikes": len(played),
        "runs": runs,
        "accused": accused,
        "suspected": sum(count.suspected for count in played),
        "upper_bound": upper_bound(accused, runs) if runs else 1.0,
    }


def show(counts: dict[str, Count], found: dict[str, Any]) -> None:
    """Print the sum, and what was held against whom."""
    for name, count in sorted(counts.items()):
        for example in count.examples:
            print(f"  {name}: {example}")
    codes: Counter[str] = Counter()
    for count in counts.values():
        codes.update(count.suspicions)
    print(
        f"{found['runs']} plays of {found['look_alikes']} look-alikes, {found['accused']} accused: below "
        f"{found['upper_bound']:.3%} with 95% confidence; {found['suspected']} suspected at first "
        f"({', '.join(f'{code} {n}' for code, n in sorted(codes.items())) or 'none'}); {found['date']}"
    )


def main() -> None:
    """Play all look-alikes and print a line for each, then the sum; or add up what was counted before."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--runs", type=int, default=100, help="plays of each look-alike on each of its sizes"
    )
    parser.add_argument(
        "--group", type=int, default=20, help="plays per process; all, where it compiles for long"
    )
    parser.add_argument("--only", nargs="*", default=[], help="look-alikes, by name or glob")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--no-slow", action="store_true", help="leave out what compiles for long")
    parser.add_argument(
        "--shard", default="1/1", metavar="I/N", help="play every Nth look-alike from the Ith on"
    )
    parser.add_argument(
        "--output", type=Path, help="keep the counts here, and go on from what is there"
    )
    parser.add_argument(
        "--merge", type=Path, nargs="+", metavar="FILE", help="play nothing; add up these files"
    )
    parser.add_argument(
        "--beside", action="store_true", help="do not take turns with other benchmarks here"
    )
    parser.add_argument("--write", action="store_true", help="keep the sum for docs/attacks.md")
    given = parser.parse_args()  # fmt: skip

    if given.merge:
        made_with, counts = merged(given.merge)
        for name, count in sorted(counts.items()):
            print(count.line(name))
    else:
        made_with = {"device": given.device, "threads": given.threads}
        counts = read(given.output, made_with) if given.output else {}
        _play_here(parser, given, made_with, counts)
    if given.output:
        save(given.output, made_with, counts)
    found = figures(counts, made_with)
    show(counts, found)
    if given.write:
        RESULT.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _play_here(
    parser: argparse.ArgumentParser,
    given: argparse.Namespace,
    made_with: dict[str, Any],
    counts: dict[str, Count],
) -> None:
    kind = given.device.partition(":")[0]
    honest = [
        entry
        for entry in entries(only=given.only, with_slow=not given.no_slow)
        if not entry.is_hostile and kind in entry.devices
    ]
    try:
        suite = shard_of(honest, given.shard)
    except ValueError as error:
        parser.error(str(error))
    if given.beside:
        own = Path(tempfile.mkdtemp(prefix="flashinfer-bench-locks-"))
        settings.lock_folder = lambda: own  # type: ignore[assignment]
    config = BenchmarkConfig.default(**{**SETTINGS, "threads": given.threads})
    with (
        victims_with(suite) as dataset,
        Benchmark(dataset, config, device=given.device) as benchmark,
    ):
        play_all(
            benchmark,
            suite,
            counts,
            runs=given.runs,
            group=given.group,
            keep=lambda: save(given.output, made_with, counts) if given.output else None,
        )


if __name__ == "__main__":
    main()
