"""Do the intervals cover the truth? Simulated samples of a known ratio, through the statistics of a real run.

Made-up machines disturb two participants whose true ratio is known; the order of turns, the sizes of blocks,
the intervals, the stopping rule and the verdicts are those of the package itself. `--write` puts the tables
into docs/measurements/intervals.md. Exits with 1 when a bar is missed.

    python benchmarks/simulate_intervals.py --runs 1000 --write
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from flashinfer_bench.bench.timing.stopping import BehindBest, IntervalWithin, StoppingRule, Taken
from flashinfer_bench.bench.timing.turns import (
    FEWEST_REFERENCE_SAMPLES,
    LEAST_BLOCKS,
    block_sizes,
    order_of_turns,
)
from flashinfer_bench.bench.tools.ab import ROUNDS
from flashinfer_bench.stats.blocks import block_ratios
from flashinfer_bench.stats.verdicts import Ratio, Verdict, ratio_of

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 1000
SEED = 20_261_120
LEAST_COVERAGE = 0.93
MOST_COVERAGE_IID = 0.99
MOST_FALSE_VERDICTS = 0.05
MOST_EQUALS_STOPPED = 0.05
COMMAND = "python benchmarks/simulate_intervals.py --runs {} --write"
HEADER = (
    "| machine | disturbed by | `run` covers | calls equal ones different | width | `ab` covers | "
    "calls equal ones different | width | finds 5% | finds 10% |"
)
RACES_HEADER = (
    "| machine | racing an equal: stops | covers | the best of 10 equals: stops | the best of 50 equals: stops | "
    "one 1.25× as fast: stops | covers | blocks | one 2× as fast: stops | covers | blocks |"
)
PAGE = Path(__file__).parents[1] / "docs" / "measurements" / "intervals.md"
MARKS = "<!-- simulated intervals: begin -->", "<!-- simulated intervals: end -->"

Slowdowns = np.ndarray
"""Logarithms of how much slower than usual: rounds × blocks × turns × samples in the order of time."""


@dataclass(frozen=True)
class Layout:
    """How many rounds of fresh processes, and which blocks in each."""

    name: str
    rounds: int
    sizes: tuple[int, ...]
    most_of_reference: int | None = None
    """How many samples of a block a slow reference takes."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Rounds, blocks, turns of two participants, samples."""
        return self.rounds, len(self.sizes), 2, max(self.sizes)


RUN = Layout("run", 1, tuple(block_sizes(50, blocks=math.ceil(LEAST_BLOCKS / 3)) * 3))
SLOW_REFERENCE = replace(RUN, name="slow reference", most_of_reference=FEWEST_REFERENCE_SAMPLES)
AB = Layout("ab", ROUNDS, tuple(block_sizes(10)))


@dataclass(frozen=True)
class Machine:
    """What disturbs a measurement: the moment, for whoever's turn it is, and the participants' own luck."""

    name: str
    what: str
    moment: Callable[[np.random.Generator, tuple[int, ...]], Slowdowns]
    own: Callable[[np.random.Generator, tuple[int, ...]], Slowdowns] | None = None
    """Of one participant: rounds × blocks × samples."""
    differs_by_process: bool = False
    """Then one pair of processes cannot tell the ratio of all, and a run is judged by its own pair's."""
    is_beyond_a_run: bool = False
    """Then one pair of processes shows too little of it; `ab` alone has a bar."""


def _normal(sigma: float) -> Callable[[np.random.Generator, tuple[int, ...]], Slowdowns]:
    return lambda draw, shape: draw.normal(0.0, sigma, shape)


def _drift(draw: np.random.Generator, shape: tuple[int, ...]) -> Slowdowns:
    slope = draw.choice([-1.0, 1.0]) * math.log(1.3)
    return _normal(0.05)(draw, shape) + np.linspace(0.0, slope, math.prod(shape)).reshape(shape)


def _is_busy(draw: np.random.Generator, count: int, length: float, share: float) -> np.ndarray:
    """Poisson busy periods of a mean length in samples that fill a share of the time."""
    busy = np.zeros(count, bool)
    rate = share / (1 - share) / length
    is_on, at = draw.random() < share, 0.0
    while at < count:
        lasts = draw.exponential(length if is_on else 1 / rate)
        if is_on:
            busy[int(at) : int(at + lasts) + 1] = True
        at, is_on = at + lasts, not is_on
    return busy


def _bursts(blocks: float, factor: float, share: float) -> Callable[..., Slowdowns]:
    def slowdowns(draw: np.random.Generator, shape: tuple[int, ...]) -> Slowdowns:
        busy = _is_busy(draw, math.prod(shape), max(1.0, blocks * shape[-1]), share)
        return _normal(0.05)(draw, shape) + math.log(factor) * busy.reshape(shape)

    return slowdowns


def _on_off(draw: np.random.Generator, shape: tuple[int, ...]) -> Slowdowns:
    """A load that comes and goes in step with two, three or four turns."""
    period = shape[-1] * draw.choice([2.0, 3.0, 4.0])
    phase = np.arange(math.prod(shape)) + draw.random() * period
    return _normal(0.05)(draw, shape) + math.log(1.5) * (phase % period < period / 2).reshape(shape)


def _wander(samples: float, sigma: float) -> Callable[..., Slowdowns]:
    """An autoregressive walk that forgets after so many steps."""

    def slowdowns(draw: np.random.Generator, shape: tuple[int, ...]) -> Slowdowns:
        keep, count = math.exp(-1 / samples), math.prod(shape)
        steps = draw.normal(0.0, sigma * math.sqrt(1 - keep * keep), count)
        steps[0] = draw.normal(0.0, sigma)
        for index in range(1, count):
            steps[index] += keep * steps[index - 1]
        return steps.reshape(shape)

    return slowdowns


def _wandering_machine(draw: np.random.Generator, shape: tuple[int, ...]) -> Slowdowns:
    return _normal(0.05)(draw, shape) + _wander(100.0, 0.1)(draw, shape)


def _own_wander(blocks_to_forget: float) -> Callable[..., Slowdowns]:
    """Each process goes its own way."""

    def slowdowns(draw: np.random.Generator, shape: tuple[int, ...]) -> Slowdowns:
        walk = _wander(blocks_to_forget, 0.03)
        walks = np.stack([walk(draw, (shape[1], 1)) for _ in range(shape[0])])
        return walks + np.zeros(shape)

    return slowdowns


def _modes(share: float, factor: float, *, by: str) -> Callable[..., Slowdowns]:
    def slowdowns(draw: np.random.Generator, shape: tuple[int, ...]) -> Slowdowns:
        alike = {"sample": shape, "block": (*shape[:2], 1), "process": (shape[0], 1, 1)}[by]
        return math.log(factor) * (draw.random(alike) < share) + np.zeros(shape)

    return slowdowns


def _per_process(sigma: float) -> Callable[..., Slowdowns]:
    return lambda draw, shape: draw.normal(0.0, sigma, (shape[0], 1, 1)) + np.zeros(shape)


def _heavy(draw: np.random.Generator, shape: tuple[int, ...]) -> Slowdowns:
    return 0.03 * draw.standard_t(2, shape)


def _pareto(draw: np.random.Generator, shape: tuple[int, ...]) -> Slowdowns:
    return np.log1p(0.03 * draw.pareto(1.2, shape))


def _everything(draw: np.random.Generator, shape: tuple[int, ...]) -> Slowdowns:
    bursts = math.log(1.5) * _is_busy(draw, math.prod(shape), 3 * shape[-1], 0.3).reshape(shape)
    return _heavy(draw, shape) + bursts + _drift(draw, shape)


MACHINES = (
    Machine("iid", "log-normal noise of 5%", _normal(0.05)),
    Machine("drift", "30% faster or slower from begin to end", _drift),
    Machine("bursts on both", "busy 30% of the time for four blocks, 1.5×", _bursts(4, 1.5, 0.3)),
    Machine("bursts on one", "busy 30% of the time for half a block, 2×", _bursts(0.5, 2.0, 0.3)),
    Machine("on and off", "1.5× in step with 2, 3 or 4 turns", _on_off),
    Machine("bimodal samples", "3 of 10 take 1.3×", _normal(0.05), _modes(0.3, 1.3, by="sample")),
    Machine("bimodal blocks", "3 of 10 take 1.15×", _normal(0.05), _modes(0.3, 1.15, by="block")),
    Machine(
        "bimodal processes",
        "4 of 10 take 1.1×",
        _normal(0.05),
        _modes(0.4, 1.1, by="process"),
        differs_by_process=True,
    ),
    Machine("heavy tail", "Student's t, two degrees of freedom, 3%", _heavy),
    Machine("one-sided tail", "Pareto of exponent 1.2, 3%", _pareto),
    Machine("wandering machine", "10%, forgets after 100 samples", _wandering_machine),
    Machine("wandering process", "3%, forgets after a block", _normal(0.05), _own_wander(1.0)),
    Machine(
        "slowly wandering process",
        "3%, forgets after five blocks",
        _normal(0.05),
        _own_wander(5.0),
        is_beyond_a_run=True,
    ),
    Machine(
        "processes differ",
        "by a log-normal 3%",
        _normal(0.05),
        _per_process(0.03),
        differs_by_process=True,
    ),
    Machine(
        "all at once",
        "heavy tail, bursts, drift, processes that differ",
        _everything,
        _per_process(0.02),
        differs_by_process=True,
    ),
)


@dataclass(frozen=True)
class Outcome:
    """One simulated measurement of two equal participants."""

    ratio: Ratio
    pair_bias: float
    """How many times faster this very pair of processes makes the new one look; 1 on average."""

    @property
    def width(self) -> float:
        """Of the interval, relative."""
        low, high = self.ratio.interval or (0.0, math.inf)
        return high / low - 1

    def covers(self, truth: float) -> bool:
        """Whether the interval holds a ratio."""
        low, high = self.ratio.interval or (0.0, math.inf)
        return low <= truth <= high

    def finds(self, speedup: float) -> bool:
        """Whether a new one so many times faster would have been called faster by 2% or more."""
        low, _ = self.ratio.interval or (0.0, math.inf)
        return low * speedup > 1.02


def simulate(machine: Machine, layout: Layout, draw: np.random.Generator) -> Outcome:
    """Time two equal participants on a machine, as a run or as `ab` does."""
    rounds, biases = [], []
    moments = machine.moment(draw, layout.shape)
    shape = (layout.rounds, len(layout.sizes), max(layout.sizes))
    luck = [np.zeros(shape) if machine.own is None else machine.own(draw, shape) for _ in range(2)]
    for number in range(layout.rounds):
        old, new = _blocks(layout, moments[number], [each[number] for each in luck], draw)
        rounds.append(block_ratios(old, new))
        biases.append(math.exp(luck[0][number].flat[0] - luck[1][number].flat[0]))
    bias = biases[0] if layout.rounds == 1 and machine.differs_by_process else 1.0
    return Outcome(ratio_of(rounds), bias)


def _blocks(
    layout: Layout, moments: np.ndarray, luck: list[np.ndarray], draw: np.random.Generator
) -> tuple[list[list[float]], list[list[float]]]:
    """Give each turn of a round to a participant, in the order a run would."""
    blocks: tuple[list[list[float]], list[list[float]]] = ([], [])
    key = int(draw.integers(2**63))
    for block, size in enumerate(layout.sizes):
        for turn, side in enumerate(order_of_turns((0, 1), seed=f"{key} {block}")):
            count = size if side else layout.most_of_reference or size
            slowness = moments[block, turn, :count] + luck[side][block, :count]
            blocks[side].append(np.exp(slowness).tolist())
    return blocks


@dataclass(frozen=True)
class Row:
    """What became of all simulated measurements on one machine."""

    machine: Machine
    layout: Layout
    coverage: float
    coverage_of_all: float
    false_verdicts: float
    width: float
    found_5: float
    found_10: float

    @property
    def faults(self) -> list[str]:
        """Which bars are missed."""
        name = f"{self.layout.name} on {self.machine.name}"
        is_iid = self.machine.name == "iid"
        most = MOST_COVERAGE_IID if is_iid else 1.0
        found: list[str] = []
        is_run = self.layout is not AB
        if is_run and self.machine.is_beyond_a_run:
            return found
        if not LEAST_COVERAGE <= self.coverage <= most:
            found.append(f"{name}: covers {self.coverage:.1%}")
        if is_run and self.machine.differs_by_process:
            return found  # equal code in unequal processes: only `ab` can tell
        if self.false_verdicts > MOST_FALSE_VERDICTS:
            found.append(f"{name}: equal ones called different {self.false_verdicts:.1%}")
        return found


def row(machine: Machine, layout: Layout, *, runs: int, seed: int = SEED) -> Row:
    """Simulate many measurements; the same seed gives the same row."""
    names = [seed, MACHINES.index(machine), layout.rounds, layout.most_of_reference or 0]
    draw = np.random.default_rng(names)
    outcomes = [simulate(machine, layout, draw) for _ in range(runs)]
    different = (Verdict.FASTER, Verdict.SLOWER)
    return Row(
        machine,
        layout,
        coverage=statistics.mean(each.covers(each.pair_bias) for each in outcomes),
        coverage_of_all=statistics.mean(each.covers(1.0) for each in outcomes),
        false_verdicts=statistics.mean(each.ratio.verdict in different for each in outcomes),
        width=statistics.median(each.width for each in outcomes),
        found_5=statistics.mean(each.finds(1.05) for each in outcomes),
        found_10=statistics.mean(each.finds(1.10) for each in outcomes),
    )


@dataclass(frozen=True)
class Peek:
    """What became of measurements that stopped at a narrow interval."""

    machine: Machine
    width: float
    coverage: float
    naive_coverage: float
    """Had the first narrow interval after six blocks been taken."""
    blocks: float
    gave_up: float

    @property
    def faults(self) -> list[str]:
        """Which bars are missed."""
        is_low = self.coverage < LEAST_COVERAGE
        name = f"stopping at {self.width:.0%} on {self.machine.name}"
        return [f"{name}: covers {self.coverage:.1%}"] if is_low else []


def peek(machine: Machine, width: float, *, runs: int, seed: int = SEED) -> Peek:
    """Stop a run at a narrow interval, as `--until-interval` does, and see what it covers."""
    rule = IntervalWithin(width)
    layout = Layout("long run", 1, (12,) * rule.most_blocks)
    draw = np.random.default_rng([seed, MACHINES.index(machine), round(1000 * width)])
    covered, naive, taken, gave_up = 0, 0, [], 0
    for _ in range(runs):
        ratios, _ = _run(machine, layout, draw)
        count, reason = _blocks_taken(rule, ratios)
        covered += _covers(ratios[:count])
        naive += _covers(ratios[: _naive_count(ratios, width)])
        taken.append(count)
        gave_up += reason == "most_blocks"
    return Peek(
        machine, width, covered / runs, naive / runs, statistics.median(taken), gave_up / runs
    )


def _run(machine: Machine, layout: Layout, draw: np.random.Generator) -> tuple[list[float], float]:
    """Time two equal participants in one pair of processes: the blocks' ratios, and that of the pair."""
    shape = (1, len(layout.sizes), max(layout.sizes))
    luck = [np.zeros(shape) if machine.own is None else machine.own(draw, shape) for _ in range(2)]
    moments = machine.moment(draw, layout.shape)[0]
    ratios = block_ratios(*_blocks(layout, moments, [each[0] for each in luck], draw))
    bias = math.exp(luck[0].flat[0] - luck[1].flat[0]) if machine.differs_by_process else 1.0
    return ratios, bias


def _blocks_taken(rule: StoppingRule, ratios: list[float]) -> tuple[int, str]:
    for count in range(1, len(ratios) + 1):
        reason = rule.reason_to_stop(Taken(blocks=ratios[:count]))
        if reason is not None:
            return count, reason
    return len(ratios), "iterations"


@dataclass(frozen=True)
class Race:
    """What became of runs that raced a best known speedup, as `--racing` does."""

    machine: Machine
    best_speedup: float
    """How many times faster the best known ones are in truth."""
    rivals: int
    """How many were measured before; the best of their low ends is raced."""
    stopped: float
    coverage: float
    """Of the ratio of its own pair, stopped or not."""
    blocks: float

    @property
    def faults(self) -> list[str]:
        """Which bars are missed."""
        name = f"racing {self.best_speedup:g}x on {self.machine.name}"
        found = []
        if self.coverage < LEAST_COVERAGE and not self.machine.is_beyond_a_run:
            found.append(f"{name}: covers {self.coverage:.1%}")
        is_equal = self.best_speedup == 1.0 and self.rivals == 1
        has_bar = is_equal and not self.machine.differs_by_process
        if has_bar and self.stopped > MOST_EQUALS_STOPPED:
            found.append(f"{name}: stops equal ones {self.stopped:.1%}")
        return found


def race(
    machine: Machine, best_speedup: float, rivals: int, *, runs: int, seed: int = SEED
) -> Race:
    """Have a run race the best of some that are so many times faster, as measured; equals should hardly ever stop."""
    names = [seed, MACHINES.index(machine), round(1000 * best_speedup), rivals]
    draw = np.random.default_rng(names)
    known = [ratio_of([_run(machine, RUN, draw)[0]]).interval for _ in range(min(runs, MEASURED))]
    low_ends = [best_speedup * interval[0] for interval in known if interval is not None]
    stopped, covered, taken = 0, 0, []
    for _ in range(runs):
        rule = BehindBest(max(draw.choice(low_ends, rivals)))
        ratios, bias = _run(machine, RUN, draw)
        count, reason = _blocks_taken(rule, ratios)
        stopped += reason == "behind"
        covered += _covers(ratios[:count], bias)
        taken.append(count)
    return Race(
        machine, best_speedup, rivals, stopped / runs, covered / runs, statistics.mean(taken)
    )


def _naive_count(ratios: list[float], width: float) -> int:
    for count in range(6, len(ratios) + 1):
        found = ratio_of([ratios[:count]])
        low, high = found.interval or (0.0, math.inf)
        if high - low <= width * (found.value or 0.0):
            return count
    return len(ratios)


def _covers(ratios: list[float], truth: float = 1.0) -> bool:
    low, high = ratio_of([ratios]).interval or (0.0, math.inf)
    return low <= truth <= high


PEEKED = ("iid", "bursts on both", "bimodal samples", "heavy tail", "wandering process")
WIDTHS = (0.04, 0.02, 0.01)
BESTS = ((1.0, 1), (1.0, 10), (1.0, 50), (1.25, 1), (2.0, 1))
"""What is raced: how many times faster, and how many were measured before."""
MEASURED = 500


def page(rows: list[Row], peeks: list[Peek], races: list[Race], runs: int) -> str:
    """Render the tables of docs/measurements/intervals.md."""
    lines = [
        f"{runs:,} simulated measurements each: `{COMMAND.format(runs)}`.",
        "",
        HEADER,
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_cells(*pair) for pair in zip(rows[::3], rows[1::3], strict=True)),
        "",
        "| machine | with a slow reference `run` covers | calls equal ones different | width |",
        "|---|---|---|---|",
        *map(_slow_cells, rows[2::3]),
        "",
        "| stopping at an interval of | machine | covers | first narrow one would cover | blocks | gave up |",
        "|---|---|---|---|---|---|",
        *(
            f"| {each.width:.0%} | {each.machine.name} | {each.coverage:.1%} | "
            f"{each.naive_coverage:.1%} | {each.blocks:.0f} | {each.gave_up:.0%} |"
            for each in peeks
        ),
        "",
        RACES_HEADER,
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(_race_cells(*group) for group in zip(*[iter(races)] * len(BESTS), strict=True)),
    ]
    return "\n".join(lines)


def _cells(run: Row, ab: Row) -> str:
    covers = f"{run.coverage:.1%}"
    false = f"{run.false_verdicts:.1%}"
    if run.machine.differs_by_process:
        covers = f"{run.coverage:.1%} of its own pair, {run.coverage_of_all:.1%} of all (no bar)"
    if run.machine.is_beyond_a_run:
        covers = f"{run.coverage:.1%} (no bar)"
    return (
        f"| {run.machine.name} | {run.machine.what} | {covers} | {false} | {run.width:.1%} | "
        f"{ab.coverage:.1%} | {ab.false_verdicts:.1%} | {ab.width:.1%} | {ab.found_5:.0%} | "
        f"{ab.found_10:.0%} |"
    )


def _slow_cells(run: Row) -> str:
    no_bar = " (no bar)" if run.machine.is_beyond_a_run else ""
    of_its_pair = " of its own pair" if run.machine.differs_by_process else ""
    covers = f"{run.coverage:.1%}{of_its_pair}{no_bar}"
    return f"| {run.machine.name} | {covers} | {run.false_verdicts:.1%} | {run.width:.1%} |"


def _race_cells(equal: Race, of_ten: Race, of_fifty: Race, *losers: Race) -> str:
    cells = [equal.machine.name, f"{equal.stopped:.1%}", f"{equal.coverage:.1%}"]
    cells += [f"{each.stopped:.0%}" for each in (of_ten, of_fifty)]
    for each in losers:
        cells += [f"{each.stopped:.0%}", f"{each.coverage:.1%}", f"{each.blocks:.1f}"]
    return f"| {' | '.join(cells)} |"


def write(text: str) -> None:
    """Replace what stands between the marks of docs/measurements/intervals.md."""
    begin, end = MARKS
    before, rest = PAGE.read_text(encoding="utf-8").split(begin)
    _, after = rest.split(end)
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def main() -> int:
    """Simulate, print, and write when asked to; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--write", action="store_true", help="put the tables into the docs")
    options = parser.parse_args()
    rows = [
        row(each, layout, runs=options.runs)
        for each in MACHINES
        for layout in (RUN, AB, SLOW_REFERENCE)
    ]
    named = {each.name: each for each in MACHINES}
    peeks = [peek(named[name], width, runs=options.runs) for width in WIDTHS for name in PEEKED]
    races = [race(each, *best, runs=options.runs) for each in MACHINES for best in BESTS]
    text = page(rows, peeks, races, options.runs)
    print(text)
    if options.write:
        write(text)
    faults = [fault for each in (*rows, *peeks, *races) for fault in each.faults]
    print("\n".join(faults) or "every bar is met", file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
