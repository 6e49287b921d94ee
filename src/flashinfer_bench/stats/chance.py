"""How far honest samples stray by chance: bounds that hold for every number of draws, not only for many.

Each gives the distance that n independent draws exceed with at most the given probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_GAINS = (10.0, 100.0, 1000.0)
"""How much more often than by chance a repeating sampler may repeat itself; the stake is split evenly."""


def ranks_stray(draws: int, rate: float) -> float:
    """Bound the largest gap between n uniform draws' empirical distribution and the uniform one.

    Dvoretzky–Kiefer–Wolfowitz with Massart's constant (Annals of Probability 18, 1990):
    P(sup |Fₙ − F| > e) ≤ 2 exp(−2 n e²).

    >>> round(ranks_stray(draws=3200, rate=1e-6), 3)
    0.048
    """
    return math.sqrt(math.log(2 / rate) / (2 * draws))


def shares_stray(draws: int, rate: float) -> float:
    """Bound by how much a total variation distance between n draws and their distribution exceeds its expectation.

    One draw moves the distance by at most 1/n, so by McDiarmid's inequality (Surveys in Combinatorics, 1989) it
    exceeds its expectation by t with probability ≤ exp(−2 n t²).

    >>> round(shares_stray(draws=100, rate=1e-6), 3)
    0.263
    """
    return math.sqrt(math.log(1 / rate) / (2 * draws))


@dataclass
class RepetitionBet:
    """Whether draws fall on tokens that were drawn before more often than chance lets them.

    A bet at fixed odds: with M draws that repeat and Q the sum of the probabilities with which each one
    would have, exp(λ M − (e^λ − 1) Q) is a supermartingale with expectation at most 1 for honest draws,
    so by Ville's inequality it ever exceeds 1/rate with probability at most `rate` (Shafer and others,
    "Test martingales", Statistical Science 26, 2011). So is the mean of several such bets: high gains win
    with three repetitions among many tokens, low ones where few tokens are likely.

    >>> bet = RepetitionBet()
    >>> bet.hear(repeats=3, chance=0.002)
    >>> bet.is_lost(1e-7)
    True
    """

    repeats: float = 0.0
    chance: float = 0.0

    @property
    def log_gain(self) -> float:
        """Logarithm of what the stake has become."""
        logs = [math.log(gain) * self.repeats - (gain - 1) * self.chance for gain in _GAINS]
        best = max(logs)
        return best + math.log(sum(math.exp(each - best) for each in logs) / len(logs))

    def hear(self, *, repeats: float, chance: float) -> None:
        """Add draws: how many repeated, and how many were expected to."""
        self.repeats += repeats
        self.chance += chance

    def is_lost(self, rate: float) -> bool:
        """Tell whether so many repetitions have at most this probability."""
        return self.log_gain > math.log(1 / rate)
