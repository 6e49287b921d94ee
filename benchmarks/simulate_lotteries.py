"""Does it pay to leave work out of some timed calls? Made-up candidates against the audit of a real run.

A candidate does the work in some samples and leaves it out in others. It knows the rules, the sizes of the blocks
and, once it happened, which secret sample was kept; it does not know the coins. It wins where the reported ratio is
10% higher than without, and nothing was noticed. Blocks, ratios and the rule of the audit are the package's own.
`--write` puts the table into docs/measurements/skipped-calls.md. Exits with 1 when someone wins more often than in 1%.

    python benchmarks/simulate_lotteries.py --runs 1000 --write
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer_bench.bench.timing.audits import (
    UsualTime,
    checked_calls,
    fast_check_probability,
    miss_probability,
    secret_place,
)
from flashinfer_bench.bench.timing.turns import LEAST_BLOCKS, block_sizes
from flashinfer_bench.stats.blocks import block_ratios
from flashinfer_bench.stats.intervals import median_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RUNS = 1000
SEED = 20_261_122
WORTH = 1.10
"""How much higher the reported ratio must be to count as won."""
MOST_WON = 0.01
COIN = 0.04
"""What a rule that checks every sample with the same probability is compared with."""
COMMAND = "python benchmarks/simulate_lotteries.py --runs {} --write"
PAGE = Path(__file__).parents[1] / "docs" / "measurements" / "skipped-calls.md"
MARKS = "<!-- simulated lotteries: begin -->", "<!-- simulated lotteries: end -->"


@dataclass(frozen=True)
class Setting:
    """How many samples in how many trials, and of how many calls each."""

    name: str
    iterations: int
    trials: int
    calls: int = 1
    more_blocks: int = 0
    """Blocks that a stopping rule adds to the last trial."""

    @property
    def trials_sizes(self) -> list[list[int]]:
        """Sizes of the blocks of each trial."""
        planned = block_sizes(self.iterations, blocks=_blocks(self))
        sizes = [list(planned) for _ in range(self.trials)]
        sizes[-1] += [planned[-1]] * self.more_blocks
        return sizes

    @property
    def sizes(self) -> list[int]:
        """Sizes of all blocks."""
        return [size for sizes in self.trials_sizes for size in sizes]


def _blocks(setting: Setting) -> int:
    return math.ceil(LEAST_BLOCKS / setting.trials)


SETTINGS = (
    Setting("default: 50 samples, 3 trials", 50, 3),
    Setting("default, 2 calls a sample", 50, 3, calls=2),
    Setting("default, 64 calls a sample", 50, 3, calls=64),
    Setting("12 samples, 2 trials", 12, 2),
    Setting("12 samples, 2 trials, 64 calls a sample", 12, 2, calls=64),
    Setting("10 samples, 1 trial: blocks of one", 10, 1),
    Setting("`--until-interval`, 24 blocks", 50, 3, more_blocks=12),
    Setting("200 samples, 1 trial", 200, 1),
)


@dataclass(frozen=True)
class Place:
    """Where a candidate is, as far as it can know."""

    block: int
    blocks: int
    at: int
    size: int
    was_kept: bool
    """Whether the secret sample of this block has been."""


Strategy = "Callable[[Place, float, random.Random], float]"
"""Gives the share of a sample's calls that are left out, for a boldness between 0 and 1."""


def _scattered(_: Place, bold: float, draw: random.Random) -> float:
    return float(draw.random() < bold)


def _whole_blocks(here: Place, bold: float, _: random.Random) -> float:
    return float(here.block >= (1 - bold) * here.blocks)


def _half_the_blocks(here: Place, bold: float, draw: random.Random) -> float:
    """Just enough samples for the medians of just enough blocks; boldness spreads them over more blocks."""
    is_chosen = here.block < math.ceil((0.5 + bold / 2) * here.blocks)
    return float(
        is_chosen and here.at >= here.size // 2 - (here.size % 2 == 0) * (draw.random() < bold)
    )


def _first_of_blocks(here: Place, bold: float, _: random.Random) -> float:
    return float(here.at < bold * here.size)


def _last_of_blocks(here: Place, bold: float, _: random.Random) -> float:
    return float(here.at >= (1 - bold) * here.size)


def _last_trials(here: Place, bold: float, draw: random.Random) -> float:
    return float(here.block >= here.blocks / 3 and draw.random() < bold)


def _after_the_kept_one(here: Place, bold: float, draw: random.Random) -> float:
    return float(here.was_kept and draw.random() < 0.5 + bold / 2)


def _all_but_hardly(_: Place, bold: float, __: random.Random) -> float:
    """A few calls of every sample, so that none is fast beside the others."""
    return 0.05 + 0.2 * bold


def _hardly_after_the_kept_one(here: Place, bold: float, _: random.Random) -> float:
    return (0.05 + 0.2 * bold) * here.was_kept


STRATEGIES = {
    "each sample with the same probability": _scattered,
    "whole blocks": _whole_blocks,
    "half of the samples of half of the blocks": _half_the_blocks,
    "the first samples of blocks": _first_of_blocks,
    "the last samples of blocks": _last_of_blocks,
    "only after the first trial": _last_trials,
    "what follows a block's secret sample": _after_the_kept_one,
    "a few calls of every sample": _all_but_hardly,
    "a few calls of what follows a block's secret sample": _hardly_after_the_kept_one,
}
BOLDNESS = (0.1, 0.25, 0.4, 0.55, 0.75, 1.0)
LEFT_TIMES = (0.1, 0.8, 0.9, 0.94)
"""What a call that is left out is made to take, of an honest one's time."""
NOISES = {
    "none": lambda _: 1.0,
    "log-normal, 5%": lambda draw: math.exp(draw.gauss(0.0, 0.05)),
    "log-normal, 20%": lambda draw: math.exp(draw.gauss(0.0, 0.20)),
    "3 of 10 take 1.3×": lambda draw: 1.3 if draw.random() < 0.3 else 1.0,
    "3 of 10 take 0.8×": lambda draw: 0.8 if draw.random() < 0.3 else 1.0,
}


@dataclass
class Play:
    """One job: what was claimed and what would have been, and how likely it is that nothing was noticed."""

    honest: list[list[float]]
    claimed: list[list[float]]
    missed: float = 1.0
    missed_by_coin: float = 1.0
    checked: float = 0.0
    """Samples that were checked, on average over the coins."""

    @property
    def is_won(self) -> bool:
        """Whether it was worth it."""
        ratios = block_ratios(self.honest, self.claimed)
        unit = median_ratio(block_ratios([[1.0]] * len(self.honest), self.honest))
        moved = median_ratio(block_ratios([[1.0]] * len(self.honest), self.claimed))
        return bool(ratios) and moved >= WORTH * unit


def play(  # noqa: PLR0917  # what is varied, in its order
    setting: Setting,
    strategy: Callable[[Place, float, random.Random], float],
    bold: float,
    left: float,
    noise: Callable[[random.Random], float],
    draw: random.Random,
) -> Play:
    """Play one job; coins for fast samples are not tossed: what they do on average is exact."""
    calls, sizes = setting.calls, setting.sizes
    planned = setting.trials * len(block_sizes(setting.iterations, blocks=_blocks(setting)))
    secret_samples = planned + setting.trials
    most = checked_calls(calls, secret_samples)
    most_if_fast = checked_calls(calls, secret_samples, is_fast=True)
    ends = _last_blocks(setting)
    usual, found = UsualTime(), Play([], [])
    for block, size in enumerate(sizes):
        secret, was_kept = secret_place(size, draw), False
        probability = fast_check_probability(size)
        found.honest.append([])
        found.claimed.append([])
        for at in range(size):
            here = Place(block, len(sizes), at, size, was_kept)
            is_last = block in ends and at == size - 1  # it is known to be checked
            skipped = 0 if is_last else round(calls * strategy(here, bold, draw))
            time = noise(draw)
            claim = time * (1 - skipped / calls * (1 - left))
            found.honest[-1].append(time)
            found.claimed[-1].append(claim)
            found.missed_by_coin *= 1 - COIN + COIN * _unseen(calls, skipped, min(calls, 4))
            if at == secret or is_last:
                found.missed *= _unseen(calls, skipped, most)
                found.checked += 1
            elif usual.is_fast(claim):
                unseen = _unseen(calls, skipped, most_if_fast)
                found.missed *= 1 - probability + probability * unseen
                found.checked += probability
            if at == secret:
                usual.add(claim)
                was_kept = True
    return found


def _last_blocks(setting: Setting) -> set[int]:
    counts = [len(sizes) for sizes in setting.trials_sizes]
    return {sum(counts[: trial + 1]) - 1 for trial in range(len(counts))}


def _unseen(calls: int, skipped: int, most: int) -> float:
    """Give the probability that none of the calls that are checked was left out."""
    return math.comb(calls - skipped, most) / math.comb(calls, most)


@dataclass(frozen=True)
class Row:
    """The luckiest way of following a strategy in a setting."""

    setting: Setting
    strategy: str
    won: float
    won_by_coin: float
    """Had each sample been checked with the same small probability."""
    noise: str

    @property
    def faults(self) -> list[str]:
        """Which bars are missed."""
        if self.won <= MOST_WON:
            return []
        return [f"{self.strategy} ({self.setting.name}, noise {self.noise}): wins {self.won:.1%}"]


def row(setting: Setting, strategy: str, *, runs: int, seed: int = SEED) -> Row:
    """Try every boldness, time and noise; first with few runs, then the best ones with all."""
    ways = list(_ways())
    few = max(10, runs // 100)
    tried = [(_chances(setting, strategy, *way, runs=few, seed=seed), way) for way in ways]
    best = max(tried, key=lambda each: each[0][0])[1]
    best_by_coin = max(tried, key=lambda each: each[0][1])[1]
    won, _ = _chances(setting, strategy, *best, runs=runs, seed=seed + 1)
    _, won_by_coin = _chances(setting, strategy, *best_by_coin, runs=runs, seed=seed + 1)
    return Row(setting, strategy, won, won_by_coin, best[2])


def _ways() -> Iterator[tuple[float, float, str]]:
    for bold in BOLDNESS:
        for left in LEFT_TIMES:
            for noise in NOISES:
                yield bold, left, noise


def _chances(
    setting: Setting,
    strategy: str,
    bold: float,
    left: float,
    noise: str,
    *,
    runs: int,
    seed: int,
) -> tuple[float, float]:
    """Give how often a candidate wins against the audit, and against a coin."""
    draw = random.Random(f"{seed} {setting.name} {strategy} {bold} {left} {noise}")
    won, won_by_coin = 0.0, 0.0
    for _ in range(runs):
        found = play(setting, STRATEGIES[strategy], bold, left, NOISES[noise], draw)
        if found.is_won:
            won += found.missed
            won_by_coin += found.missed_by_coin
    return won / runs, won_by_coin / runs


def honest_checks(setting: Setting, noise: str, *, runs: int, seed: int = SEED) -> float:
    """Give how many samples of an honest candidate are checked, on average."""
    draw = random.Random(f"{seed} {setting.name} {noise}")
    plays = [play(setting, _scattered, 0.0, 1.0, NOISES[noise], draw) for _ in range(runs)]
    return sum(each.checked for each in plays) / runs


def best_plan(sizes: list[int]) -> tuple[float, int]:
    """Find who is fast in just enough samples and is noticed least, where honest samples are all alike.

    Exact for plans made in advance: the medians of half the blocks fall, and the blocks are those in which that
    goes unnoticed most easily. Returns the probability that nothing is noticed, and how many samples it takes.
    """
    enough = [math.ceil(size / 2) for size in sizes]
    alone = [
        miss_probability([size, size], [0, count])
        for size, count in zip(sizes, enough, strict=True)
    ]
    first = miss_probability(sizes[:1], enough[:1])
    later = sorted(range(1, len(sizes)), key=lambda block: -alone[block])
    chosen = later[: math.ceil(len(sizes) / 2) - 1]
    plan = [enough[block] if block in {0, *chosen} else 0 for block in range(len(sizes))]
    return first * math.prod(alone[block] for block in chosen), sum(plan)


def page(rows: list[Row], runs: int) -> str:
    """Render the tables of docs/measurements/skipped-calls.md."""
    by_setting = {
        setting: [each for each in rows if each.setting is setting] for setting in SETTINGS
    }
    lines = [
        f"{runs:,} simulated jobs each: `{COMMAND.format(runs)}`.",
        "",
        "| left out | "
        + " | ".join(f"{setting.name}" for setting in SETTINGS)
        + " | with a coin of 4% alone, at most |",
        "|---|" + "---|" * (len(SETTINGS) + 1),
    ]
    for name in STRATEGIES:
        mine = [
            next(each for each in group if each.strategy == name) for group in by_setting.values()
        ]
        worst = max(each.won_by_coin for each in mine)
        lines.append(f"| {name} | {' | '.join(percent(each.won) for each in mine)} | {worst:.0%} |")
    lines += [
        "",
        "| samples of an honest candidate that are checked, of all | "
        + " | ".join(NOISES)
        + " | best plan made in advance wins |",
        "|---|" + "---|" * (len(NOISES) + 1),
    ]
    for setting in SETTINGS:
        counts = [honest_checks(setting, noise, runs=max(20, runs // 20)) for noise in NOISES]
        exact, _ = best_plan(setting.sizes)
        total = sum(setting.sizes)
        shown = " | ".join(f"{count:.0f} of {total}" for count in counts)
        lines.append(f"| {setting.name} | {shown} | {percent(exact)} |")
    return "\n".join(lines)


def percent(share: float) -> str:
    """Write a small probability: two digits after the point, or that it is less.

    >>> percent(0.0), percent(0.00003), percent(0.0123)
    ('0', '< 0.01%', '1.23%')
    """
    if share == 0:
        return "0"
    return "< 0.01%" if share < 1e-4 else f"{share:.2%}"


def write(text: str) -> None:
    """Replace what stands between the marks of docs/measurements/skipped-calls.md."""
    begin, end = MARKS
    content = PAGE.read_text()
    head, rest = content.split(begin)
    _, tail = rest.split(end)
    PAGE.write_text(f"{head}{begin}\n{text}\n{end}{tail}")


def main() -> None:
    """Run every strategy in every setting and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = [
        row(setting, strategy, runs=options.runs) for setting in SETTINGS for strategy in STRATEGIES
    ]
    text = page(rows, options.runs)
    print(text)
    if options.write:
        write(text)
    faults = [fault for each in rows for fault in each.faults]
    print("\n".join(faults), file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
