"""What is asked of drawn tokens: each inside its support, all together distributed as they should be.

A drawn token is turned into where it stands in its row, from 0 (the most likely) to 1: a uniform number if
the sampler is honest, whatever the row. So draws of different rows and calls can be looked at together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch

from flashinfer_bench.errors import DatasetError
from flashinfer_bench.judging.case import JudgeVerdict
from flashinfer_bench.judging.ranked import RankedRows, Reading, Thresholds
from flashinfer_bench.stats.chance import RepetitionBet, ranks_stray, shares_stray

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flashinfer_bench.judging.case import JudgedCall, Outputs

_DRAWS_PER_CELL = 5  # expected in each cell of a row's histogram
_REPEATS_SHARE = 1 / 4  # of the false-alarm rate, for each of three tests
_AUDIT_SHARE = 1 / 8  # for each of two
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """How many calls are looked at, and how far off their distribution may be."""

    sampling_validation_trials: int = 100
    """Calls on the same probabilities, at least."""
    sampling_least_draws: int = 1000
    """Draws over all rows of those calls, at least."""
    sampling_tvd_threshold: float = 0.2
    """Total variation distance a row may have, beyond what chance explains."""
    sampling_rank_tolerance: float = 0.02
    """Largest gap between the distribution functions over ranks, beyond what chance explains."""
    sampling_false_alarm_rate: float = 1e-6
    """Probability at most that an exact sampler is called wrong in a job."""

    @classmethod
    def of(cls, extra: Mapping[str, Any]) -> SamplingRules:
        """Read them from a configuration's `extra`; `DatasetError` names a value that cannot be."""
        rules = cls(**{name: extra[name] for name in cls.__slots__ if name in extra})
        for name in cls.__slots__:
            value, is_count = getattr(rules, name), isinstance(getattr(cls(), name), int)
            is_number = isinstance(value, int if is_count else int | float)
            if not is_number or isinstance(value, bool) or not math.isfinite(value):
                raise DatasetError(f"{name} must be a number, not {value!r}")
            if value < 0 or (is_count and value < 1) or (not is_count and value > 1):
                wanted = "at least 1" if is_count else "between 0 and 1"
                raise DatasetError(f"{name} must be {wanted}, not {value!r}")
        if not 0 < rules.sampling_false_alarm_rate < 1:
            raise DatasetError("sampling_false_alarm_rate must lie between 0 and 1")
        return rules


class SamplerSource(Protocol):
    """What a judge of samplers knows about a definition."""

    @property
    def output(self) -> str:
        """Name of the drawn tokens."""

    @property
    def rules(self) -> SamplingRules:
        """How many draws, and how far off."""

    def parts(self, inputs: Sequence[Any]) -> Iterator[SampledRows]:
        """Sort the rows of a call, some at a time."""

    def tokens(self, got: Outputs, inputs: Sequence[Any]) -> torch.Tensor:
        """Give drawn tokens as (rows, draws of one call)."""


class SampledRows:
    """Some rows of a call, with everything that is asked about them."""

    def __init__(self, rows: slice, probabilities: torch.Tensor, limits: Thresholds) -> None:
        self.rows = rows
        self.ranked = RankedRows(probabilities)
        self.least = self.ranked.smallest_allowed(limits)
        self.readings = self.ranked.readings(limits)


@dataclass
class SamplingCase:
    """What was heard of one sampler in one job."""

    source: SamplerSource
    ranks: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    """Where the draws of single calls stand, by reading."""
    bet: RepetitionBet = field(default_factory=RepetitionBet)
    seen: dict[int, set[int]] = field(default_factory=dict)
    """Tokens drawn in single calls, by row."""
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0))

    def hear(self, call: JudgedCall) -> JudgeVerdict:
        """Judge the tokens of one call by their supports; remember where they stand."""
        tokens = self.source.tokens(call.got, call.inputs)
        verdict = JudgeVerdict(is_accepted=True)
        for part in self.source.parts(call.inputs):
            drawn = tokens[part.rows]
            found = self._in_support(part, drawn)
            verdict = verdict.merged(found)
            if not found.is_accepted or not drawn.numel():
                continue
            probability, before = part.ranked.places(drawn)
            for number, reading in enumerate(part.readings):
                ranks = _ranks(probability, before, reading, self.generator)
                usable = ranks[~reading.is_ambiguous].reshape(-1).cpu()
                self.ranks.setdefault(number, []).append(usable)
            self._bet_on_repetition(part, drawn)
        return verdict

    def hear_repeats(self, inputs: Sequence[Any], returned: Sequence[Outputs]) -> JudgeVerdict:
        """Judge how the draws of calls on the same inputs are distributed, row by row and together."""
        tokens = torch.cat([self.source.tokens(got, inputs) for got in returned], dim=-1)
        verdict, seen = JudgeVerdict(is_accepted=True), []
        for part in self.source.parts(inputs):
            drawn = tokens[part.rows]
            found = self._in_support(part, drawn)
            verdict = verdict.merged(found)
            if found.is_accepted and drawn.numel():
                places = part.ranked.places(drawn)
                seen.append(
                    [_Look.at(part, places, reading, self.generator) for reading in part.readings]
                )
        if not verdict.is_accepted or not seen:
            return verdict
        looks = [_Look.joined(each) for each in zip(*seen, strict=True)]
        return verdict.merged(_about_repeats(looks, self.source.rules)).placed(
            f"output {self.source.output!r}"
        )

    def close(self) -> JudgeVerdict:
        """Judge all single calls together: where their draws stand, and how often tokens came again."""
        rules = self.source.rules
        rate = rules.sampling_false_alarm_rate * _AUDIT_SHARE
        if self.bet.is_lost(rate):
            why = "it draws the tokens of earlier calls again, though the probabilities are others"
            return JudgeVerdict(
                is_accepted=False, explanation=f"output {self.source.output!r}: {why}"
            )
        pooled = [torch.cat(ranks) for ranks in self.ranks.values()]
        why = _about_ranks(pooled, rules, rate)
        return JudgeVerdict(
            is_accepted=not why,
            explanation=f"output {self.source.output!r}: in timed calls, {why}" if why else "",
        )

    def _in_support(self, part: SampledRows, drawn: torch.Tensor) -> JudgeVerdict:
        vocabulary = part.ranked.vocabulary
        is_token = (drawn >= 0) & (drawn < vocabulary)
        probability = part.ranked.of(drawn.clamp(0, vocabulary - 1))
        bad = ~is_token | (probability < part.least[:, None]) | (probability <= 0)
        if not bad.any():
            return JudgeVerdict(is_accepted=True)
        lines = [f"{int(bad.sum())} of {bad.numel()} tokens lie outside what may be drawn"]
        for row, column in bad.nonzero()[:_SHOWN].tolist():
            token = int(drawn[row, column])
            why = f"probability {float(probability[row, column]):.3g}"
            if not is_token[row, column]:
                why = f"not between 0 and {vocabulary - 1}"
            least = f"at least {float(part.least[row]):.3g} may be drawn"
            lines.append(f"  in row {part.rows.start + row}: token {token}, {why}; {least}")
        return JudgeVerdict(
            is_accepted=False,
            max_absolute=math.inf,
            max_relative=math.inf,
            matched_ratio=1 - int(bad.sum()) / bad.numel(),
            explanation=f"output {self.source.output!r}: " + "\n".join(lines),
        )

    def _bet_on_repetition(self, part: SampledRows, drawn: torch.Tensor) -> None:
        """Bet against tokens that were drawn before in the same row, with their chance of coming now."""
        mass = torch.stack([reading.mass for reading in part.readings]).amin(0)
        for row, tokens in enumerate(drawn.tolist()):
            seen = self.seen.setdefault(part.rows.start + row, set())
            if seen:
                known = torch.tensor([sorted(seen)], device=drawn.device)
                chance = float(part.ranked.of(known, rows=slice(row, row + 1)).sum() / mass[row])
                repeats = sum(token in seen for token in tokens)
                self.bet.hear(repeats=repeats, chance=min(1.0, chance) * len(tokens))
            seen.update(tokens)


@dataclass(frozen=True, slots=True)
class _Look:
    """What draws from rows look like under one reading."""

    ranks: torch.Tensor
    """(rows, draws)."""
    distance: torch.Tensor
    """Total variation distance over cells, (rows,)."""
    shares: list[torch.Tensor]
    """Expected share of each cell, by row."""
    is_ambiguous: torch.Tensor

    @classmethod
    def at(
        cls,
        part: SampledRows,
        places: tuple[torch.Tensor, torch.Tensor],
        reading: Reading,
        generator: torch.Generator,
    ) -> _Look:
        """Count draws in cells that expect five each, and see where they stand."""
        probability, before = places
        distances, shares = [], []
        for row in range(len(before)):
            edges = _edges(part.ranked, reading, row, draws=before.shape[-1])
            cell = torch.searchsorted(edges, before[row] + probability[row] / 2, right=True)
            counts = torch.bincount(cell, minlength=len(edges) + 1).double()
            bounds = torch.cat([edges.new_zeros(1), edges]) / reading.mass[row]
            share = torch.cat(
                [bounds.diff(), bounds.new_zeros(1)]
            )  # the last is outside the support
            distances.append((counts / before.shape[-1] - share).abs().sum() / 2)
            shares.append(share.cpu())
        return cls(
            _ranks(probability, before, reading, generator).cpu(),
            torch.stack(distances).cpu(),
            shares,
            reading.is_ambiguous.cpu(),
        )

    @classmethod
    def joined(cls, looks: Sequence[_Look]) -> _Look:
        """Put the rows of all parts under each other."""
        return cls(
            torch.cat([look.ranks for look in looks]),
            torch.cat([look.distance for look in looks]),
            [share for look in looks for share in look.shares],
            torch.cat([look.is_ambiguous for look in looks]),
        )

    def is_off(self, rules: SamplingRules) -> torch.Tensor:
        """Tell which rows are further off than tolerance and chance explain; (rows,)."""
        rows, draws = self.ranks.shape
        rate = rules.sampling_false_alarm_rate * _REPEATS_SHARE / rows
        chance = torch.stack([total_variation_strays(share, draws, rate) for share in self.shares])
        is_off = self.distance > rules.sampling_tvd_threshold + chance
        allowed = rules.sampling_rank_tolerance + ranks_stray(draws, rate)
        return (is_off | (_gaps(self.ranks) > allowed)) & ~self.is_ambiguous


def total_variation_strays(shares: torch.Tensor, draws: int, rate: float) -> torch.Tensor:
    """Bound each row's total variation distance between n draws and what they were drawn from.

    `shares` is (rows, cells), each row a distribution. The expected distance is at most
    ½ Σ √(p (1 − p) / n), as E|X| ≤ √E[X²].
    """
    expected = (shares * (1 - shares) / draws).clamp(min=0).sqrt().sum(-1) / 2
    return expected + shares_stray(draws, rate)


def _about_repeats(looks: Sequence[_Look], rules: SamplingRules) -> JudgeVerdict:
    """A row, and all rows together, must fit one reading of what should be drawn."""
    is_off = torch.stack([look.is_off(rules) for look in looks]).all(0)
    distances = torch.stack([look.distance for look in looks]).amin(0)
    extra = {
        "tvd": float(distances.max()),
        "tvds_per_batch": [round(d, 4) for d in distances.tolist()],
    }
    rate = rules.sampling_false_alarm_rate * _REPEATS_SHARE
    pooled = [look.ranks[~look.is_ambiguous].reshape(-1) for look in looks]
    why = _about_ranks(pooled, rules, rate)
    if is_off.any():
        row = int(is_off.nonzero()[0, 0])
        why = (
            f"in {int(is_off.sum())} of {len(is_off)} rows, the first is {row}, tokens are not drawn as "
            f"often as they should be (total variation distance {float(distances[row]):.3g})"
        )
    return JudgeVerdict(is_accepted=not why, explanation=why, extra=extra)


def _about_ranks(pooled: Sequence[torch.Tensor], rules: SamplingRules, rate: float) -> str:
    """Say how far off draws are together under the reading that fits best; nothing if that is by chance."""
    found = []
    for ranks in pooled:
        if not len(ranks):
            return ""
        chance = ranks_stray(len(ranks), rate)
        gap = float(_gaps(ranks[None])[0])
        allowed = rules.sampling_rank_tolerance
        found.append((gap - allowed - chance, gap, len(ranks), allowed, chance))
    if not found or min(found)[0] <= 0:
        return ""
    _, gap, draws, allowed, chance = min(found)
    return (
        f"likely and unlikely tokens are not drawn as often as they should be: over {draws} draws the "
        f"distribution of ranks is off by {gap:.3g}; {allowed:.3g} is allowed, {chance:.3g} may be chance"
    )


def _ranks(
    probability: torch.Tensor, before: torch.Tensor, reading: Reading, generator: torch.Generator
) -> torch.Tensor:
    """Give each draw's standing among the kept tokens, from 0 to 1: uniform for an honest sampler.

    Within the token itself the place is random: the randomised probability integral transform.
    """
    inside = torch.rand(before.shape, generator=generator, dtype=torch.float64).to(before.device)
    return ((before + inside * probability) / reading.mass[:, None]).clamp(max=1.0)


def _gaps(ranks: torch.Tensor) -> torch.Tensor:
    """Give each row's largest gap between its distribution function and the uniform one; (rows,)."""
    ordered, count = ranks.sort(dim=-1).values, ranks.shape[-1]
    steps = torch.arange(count + 1, dtype=torch.float64, device=ranks.device) / count
    above, below = steps[1:] - ordered, ordered - steps[:-1]
    return torch.maximum(above.amax(-1), below.amax(-1))


def _edges(ranked: RankedRows, reading: Reading, row: int, *, draws: int) -> torch.Tensor:
    """End cells where five draws more are expected: each likely token its own, the others by dozens."""
    sums = ranked.sums[row, : int(reading.kept[row])]
    cells = max(1, draws // _DRAWS_PER_CELL)
    wanted = torch.arange(1, cells, device=sums.device, dtype=sums.dtype) / cells * sums[-1]
    places = torch.searchsorted(sums, wanted).clamp(max=len(sums) - 1)
    ends = torch.cat([sums[places], sums[-1:]])
    return ends[torch.cat([ends.diff() > 0, ends.new_ones(1, dtype=torch.bool)])]
