"""Claims against what was seen from outside."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from flashinfer_bench.bench.timing.batches import is_noisy, largest_batch, needs_more_batches
from flashinfer_bench.bench.timing.observed import (
    ALLOWANCE_ON_A_CARD_NS,
    REPLAY_ALLOWANCE_NS,
    Observations,
    Observed,
    Suspicion,
)
from flashinfer_bench.bench.timing.plausible import suspicions, unaccounted

US = 1_000.0
CALL_NS = 10 * US
WAKING_NS = 60 * US


def sample(count: int, noise: random.Random, *, call_ns: float = CALL_NS) -> Observed:
    """An honest sample on a machine whose wake-ups jitter by some microseconds."""
    claimed_ns = count * call_ns
    return Observed(
        count,
        claimed_ns,
        claimed_ns + WAKING_NS + noise.uniform(-5, 5) * US,
        preparing_ns=200 * US,
        committing_ns=50 * US,
        preparing_cpu_ns=100 * US + noise.uniform(-5, 5) * US,
        pause_cpu_ns=8 * US,
        running_cpu_ns=claimed_ns + 40 * US,
    )


def honest() -> Observations:
    noise = random.Random(0)
    blocks = [tuple(sample(5, noise) for _ in range(5)) for _ in range(12)]
    controls = [tuple(sample(5, noise) for _ in range(2)) for _ in range(12)]
    peers = [tuple(sample(5, noise, call_ns=3 * CALL_NS) for _ in range(5)) for _ in range(12)]
    batches = [(sample(3, noise), sample(30, noise)) for _ in range(9)]
    beside = [(sample(3, noise), sample(30, noise)) for _ in range(9)]
    return Observations(blocks, controls, peers, batches, beside, idle=[(1e6, 5 * US)] * 24)


def judged(observations: Observations, *, cores: int = 1, on_cpu: bool = True) -> list[Suspicion]:
    return list(suspicions(observations, cores=cores, on_cpu=on_cpu))


def codes(observations: Observations, *, cores: int = 1, on_cpu: bool = True) -> list[str]:
    return [each.code for each in judged(observations, cores=cores, on_cpu=on_cpu)]


def changed(observations: Observations, **changes: float) -> Observations:
    """The same with each sample's figures moved; controls stay."""

    def moved(each: Observed) -> Observed:
        return replace(each, **{name: getattr(each, name) + by for name, by in changes.items()})

    observations.blocks = [tuple(map(moved, block)) for block in observations.blocks]
    return observations


def lying(observations: Observations, factor: float) -> Observations:
    """The same claims divided by `factor`, in blocks and batches."""

    def claims_less(each: Observed) -> Observed:
        return replace(each, claimed_ns=each.claimed_ns / factor)

    observations.blocks = [tuple(map(claims_less, block)) for block in observations.blocks]
    observations.batches = [
        (claims_less(low), claims_less(high)) for low, high in observations.batches
    ]
    return observations


def test_an_honest_candidate_is_not_suspected() -> None:
    assert judged(honest()) == []
    assert judged(honest(), on_cpu=False) == []


def test_claiming_a_third_less_for_ten_microseconds_is_implausible() -> None:
    found, *_ = judged(lying(honest(), 1.3))

    assert found.code == "implausible"
    assert (
        "a call takes 9.79 µs by the judge's clock, and is claimed to take 7.69 µs"
        in found.evidence
    )


def delayed(pair: tuple[Observed, Observed], *, by_ns: float) -> tuple[Observed, Observed]:
    """A pair whose large batch waited for its turn: who prepared for long is not the first in the queue."""
    low, high = pair
    return low, replace(high, outside_ns=high.outside_ns + by_ns)


def test_on_a_busy_machine_batches_are_as_late_as_those_of_a_trusted_process() -> None:
    observations, late_ns = honest(), 2_800 * US
    observations.batches = [delayed(pair, by_ns=late_ns) for pair in observations.batches]
    assert codes(observations) == ["implausible"]

    observations.control_batches = [
        delayed(pair, by_ns=late_ns) for pair in observations.control_batches
    ]
    assert codes(observations) == []

    assert "implausible" in codes(lying(observations, 1.3))


def test_a_claim_within_a_tenth_is_believed() -> None:
    assert judged(lying(honest(), 1.08)) == []


def lying_in_blocks(observations: Observations, factor: float, count: int) -> Observations:
    """The same lie in so many blocks; the others, and batches, are honest."""
    lies = lying(replace(observations, blocks=observations.blocks[:count]), factor).blocks
    return replace(observations, blocks=[*lies, *observations.blocks[count:]])


@pytest.mark.parametrize("count", range(6, 13))
def test_a_lie_in_half_of_the_blocks_or_more_is_seen(count: int) -> None:
    found, *_ = judged(lying_in_blocks(honest(), 3.0, count))

    assert found.code == "hidden_work"


def test_a_lie_in_fewer_blocks_moves_no_median_and_is_let_be() -> None:
    assert judged(lying_in_blocks(honest(), 3.0, 5)) == []


def noisy_in_few_blocks(observations: Observations, *, used_ns: float) -> Observations:
    """The same where three blocks of trusted processes are late by a millisecond."""

    def late(block: tuple[Observed, ...]) -> tuple[Observed, ...]:
        return tuple(replace(each, outside_ns=each.outside_ns + 1_000 * US) for each in block)

    peers = [
        late(block) if number < 3 else block for number, block in enumerate(observations.peers)
    ]
    stirred = [used_ns if number < 3 else 0.0 for number in range(len(peers))]
    return replace(observations, peers=peers, stirred=stirred)


def test_noise_that_a_candidate_makes_in_a_few_blocks_is_no_excuse() -> None:
    by_itself = noisy_in_few_blocks(honest(), used_ns=3_000 * US)
    by_others = noisy_in_few_blocks(honest(), used_ns=20 * US)
    assert judged(by_itself) == judged(by_others) == []

    by_itself, by_others = (
        changed(by_itself, outside_ns=80 * US),
        changed(by_others, outside_ns=80 * US),
    )
    assert codes(by_itself) == ["hidden_work"]
    assert codes(by_others) == []


def with_bursts(observations: Observations, noise: random.Random) -> Observations:
    """The same on a busy machine: whole blocks are late, and claims of others are long; nobody chose which."""

    def disturbed(block: tuple[Observed, ...]) -> tuple[Observed, ...]:
        inside_ns, beside_ns = (noise.choice((0.0, 0.0, 60.0)) * US for _ in range(2))
        return tuple(
            replace(
                each,
                claimed_ns=each.claimed_ns + inside_ns,
                outside_ns=each.outside_ns + inside_ns + beside_ns,
            )
            for each in block
        )

    return replace(
        observations,
        blocks=[*map(disturbed, observations.blocks)],
        controls=[*map(disturbed, observations.controls)],
        peers=[*map(disturbed, observations.peers)],
    )


def test_whoever_is_late_in_some_blocks_by_chance_is_hardly_ever_suspected() -> None:
    noise = random.Random(1)
    suspected = [bool(judged(with_bursts(honest(), noise))) for _ in range(400)]

    assert sum(suspected) <= 4


def test_a_lie_told_in_samples_but_not_in_batches_is_seen_in_the_samples() -> None:
    observations = honest()
    batches = observations.batches
    observations = lying(observations, 5.0)
    observations.batches = batches

    (found,) = judged(observations)

    assert found.code == "hidden_work"
    assert "took 39" in found.evidence or "took 40" in found.evidence


def test_a_claim_of_too_much_time_is_not_held_against_anyone() -> None:
    assert judged(lying(honest(), 0.5)) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"preparing_cpu_ns": 200 * US}, "early_compute"),
        ({"pause_cpu_ns": 50 * US}, "early_compute"),
        ({"running_cpu_ns": 200 * US}, "hidden_work"),
    ],
)
def test_work_outside_the_window_is_seen_in_processor_time(
    changes: dict[str, float], code: str
) -> None:
    assert codes(changed(honest(), **changes)) == [code]


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"preparing_ns": 400 * US}, "early_compute"), ({"committing_ns": 200 * US}, "hidden_work")],
)
def test_on_a_card_work_outside_the_window_is_seen_by_the_clock(
    changes: dict[str, float], code: str
) -> None:
    assert codes(changed(honest(), **changes), on_cpu=False) == [code]


def on_a_card(
    jitter_us: float = 100.0,
    call_us: float = 360.0,
    most: int = 2,
    seed: int = 0,
    pairs: int = 12,
) -> Observations:
    """An honest candidate of an H200: samples of one call, few calls in a batch, wake-ups that vary a lot.

    Half of the time the judge hears late that calls returned: then outputs are committed by the time it asks.
    """
    noise = random.Random(seed)

    def seen(count: int) -> Observed:
        claimed_ns = count * call_us * US
        waking_ns = 1_000 * US + noise.gauss(0, jitter_us) * US
        late_ns = noise.choice((0.0, 90.0)) * US
        return Observed(
            count,
            claimed_ns,
            claimed_ns + waking_ns + late_ns,
            preparing_ns=250 * US + noise.gauss(0, 60) * US,
            committing_ns=93 * US - late_ns,
        )

    blocks = [tuple(seen(1) for _ in range(4)) for _ in range(12)]
    controls = [tuple(seen(1) for _ in range(3)) for _ in range(12)]
    batches = [(seen(1), seen(most)) for _ in range(pairs)]
    return Observations(blocks, controls, batches=batches, hides_launches=True, is_cold=True)


@pytest.mark.parametrize(
    ("jitter_us", "at_once", "most", "pairs"),
    [
        (50.0, 50, 2, 12),
        (100.0, 45, 2, 12),
        (200.0, 20, 2, 12),
        (50.0, 50, 3, 6),
        (100.0, 45, 3, 6),
    ],
)
def test_noise_of_a_card_hides_no_lie_of_a_third(
    jitter_us: float, at_once: int, most: int, pairs: int
) -> None:
    claims = [
        lying(on_a_card(jitter_us, most=most, seed=seed, pairs=pairs), 3) for seed in range(50)
    ]

    caught = [each for each in claims if "implausible" in codes(each, on_cpu=False)]
    unsure = [each for each in claims if needs_more_batches(each, on_cpu=False)]

    assert len(caught) >= at_once
    assert len(caught) + len(unsure) >= 45  # who is not sure orders more pairs


def slower_from_outside(observations: Observations, per_call_ns: float) -> Observations:
    """Batches each of whose calls takes the judge's clock so much longer than it claims."""

    def later(each: Observed) -> Observed:
        return replace(each, outside_ns=each.outside_ns + each.count * per_call_ns)

    observations.batches = [(later(low), later(high)) for low, high in observations.batches]
    return observations


@pytest.mark.parametrize(
    ("allowance_ns", "accused"), [(ALLOWANCE_ON_A_CARD_NS, True), (REPLAY_ALLOWANCE_NS, False)]
)
def test_what_a_recorded_replay_keeps_the_host_is_not_held_against_it(
    allowance_ns: float, accused: bool
) -> None:
    def replays(seed: int) -> Observations:
        found = on_a_card(5.0, call_us=35.0, most=26, seed=seed)
        found.allowance_ns = allowance_ns
        return slower_from_outside(found, 5 * US)

    honest_ones = [codes(replays(seed), on_cpu=False) for seed in range(30)]
    lies = [codes(lying(replays(seed), 3), on_cpu=False) for seed in range(30)]

    assert any(honest_ones) == accused
    assert all(each == ["implausible"] for each in lies)


def paid_by_the_spin(observations: Observations, factor: float) -> Observations:
    """Samples in which the spin is shorter by what is not claimed, so that the judge's clock sees what it expects."""

    def claims_less(each: Observed) -> Observed:
        hidden_ns = each.claimed_ns * (1 - 1 / factor)
        return replace(
            each, claimed_ns=each.claimed_ns - hidden_ns, outside_ns=each.outside_ns - hidden_ns
        )

    observations.blocks = [tuple(map(claims_less, block)) for block in observations.blocks]
    return observations


@pytest.mark.parametrize("jitter_us", [20.0, 50.0])
def test_on_a_card_who_lies_in_samples_only_is_caught_by_what_batches_take(
    jitter_us: float,
) -> None:
    caught = 0
    for seed in range(50):
        observations = on_a_card(jitter_us, seed=seed)
        caught += codes(paid_by_the_spin(observations, 3), on_cpu=False) == ["implausible"]

    assert caught >= 45


def test_batches_whose_launches_cannot_be_hidden_say_nothing_of_samples() -> None:
    observations = paid_by_the_spin(on_a_card(), 3)
    observations.hides_launches = False

    assert codes(observations, on_cpu=False) == []


def test_calls_that_wait_for_the_card_may_take_longer_in_a_batch() -> None:
    observations = paid_by_the_spin(on_a_card(), 3)
    assert codes(observations, on_cpu=False) == ["implausible"]

    observations.blocks = [
        tuple(replace(each, is_hidden=False) for each in block) for block in observations.blocks
    ]

    assert codes(observations, on_cpu=False) == []


@pytest.mark.parametrize(("most", "pairs"), [(2, 12), (3, 6)])
def test_noise_of_a_card_accuses_hardly_anybody_even_once(most: int, pairs: int) -> None:
    found = [
        codes(on_a_card(200.0, most=most, seed=seed, pairs=pairs), on_cpu=False)
        for seed in range(200)
    ]

    assert sum(bool(each) for each in found) <= 4  # three attempts in a row would have to


def test_a_busy_host_accuses_nobody_on_a_card_by_all_the_batches_there_may_be() -> None:
    """Wake-ups that vary by milliseconds make slopes of hundreds of microseconds, to either side."""
    found = [
        codes(on_a_card(3_000.0, most=8, seed=seed, pairs=46), on_cpu=False) for seed in range(100)
    ]

    assert sum("implausible" in each for each in found) <= 5  # the interval says 2.5


def test_hearing_late_that_calls_returned_is_no_hidden_work() -> None:
    observations = on_a_card()
    observations.controls = [
        tuple(
            replace(o, outside_ns=o.outside_ns + o.committing_ns, committing_ns=3 * US)
            for o in control
        )
        for control in observations.controls
    ]

    assert judged(observations, on_cpu=False) == []


def test_on_a_card_late_work_is_seen_however_it_was_heard() -> None:
    assert "hidden_work" in codes(changed(on_a_card(), committing_ns=450 * US), on_cpu=False)


def test_two_cores_may_use_twice_the_processor_time() -> None:
    observations = changed(honest(), running_cpu_ns=5 * CALL_NS)

    assert codes(observations, cores=2) == []


@pytest.mark.parametrize("figure", ["preparing_cpu_ns", "committing_ns"])
def test_less_than_a_tenth_of_the_claim_is_believed_and_a_bit_more_is_not(figure: str) -> None:
    claimed_ns = 5 * CALL_NS

    assert codes(changed(honest(), **{figure: 0.05 * claimed_ns})) == []
    assert codes(changed(honest(), **{figure: 0.35 * claimed_ns})) != []


def test_what_the_reference_takes_as_well_is_held_against_nobody() -> None:
    observations = changed(honest(), preparing_cpu_ns=60 * US, committing_ns=60 * US)
    observations.peers = changed(honest(), preparing_cpu_ns=60 * US, committing_ns=60 * US).blocks

    assert codes(observations) == []


def test_a_little_early_and_a_little_late_is_too_much_together() -> None:
    claimed_ns = 5 * CALL_NS

    assert codes(changed(honest(), preparing_cpu_ns=0.09 * claimed_ns)) == []
    assert codes(changed(honest(), committing_ns=0.09 * claimed_ns)) == []
    both = changed(honest(), preparing_cpu_ns=0.14 * claimed_ns, committing_ns=0.14 * claimed_ns)
    assert "hidden_work" in codes(both)


def test_preparing_that_takes_long_while_others_work_is_seen() -> None:
    observations = changed(honest(), preparing_ns=300 * US)
    assert codes(observations) == ["early_compute"]  # nobody counts what ended children used
    observations.unmet = [(25 * CALL_NS, 0.0)] * 11 + [(25 * CALL_NS, 5 * CALL_NS)]
    assert codes(observations) == ["early_compute"]


def test_who_waits_for_a_processor_and_starts_nothing_has_not_computed_early() -> None:
    observations = changed(honest(), preparing_ns=300 * US)
    observations.unmet = [(25 * CALL_NS, 0.0)] * 12
    assert codes(observations) == []


def test_children_that_lived_within_a_block_count() -> None:
    observations = honest()
    observations.born = [(5 * 5 * CALL_NS, 5e6)] * 12
    assert codes(observations) == ["hidden_work"]
    observations.born = [(5 * 5 * CALL_NS, 300 * US)] * 12
    assert codes(observations) == []
    observations.unmet = [(25 * CALL_NS, 25 * CALL_NS)] * 12  # each call waited for what it started
    assert codes(observations) == []
    observations.unmet = observations.born  # where the kernel counts, being born is no excuse
    assert codes(observations) == ["hidden_work"]


def test_children_in_the_half_of_the_blocks_that_makes_the_figure_count() -> None:
    observations = honest()
    observations.blocks[:6] = changed(honest(), claimed_ns=-2 * CALL_NS).blocks[:6]
    observations.unmet = [(0.0, 1e6)] * 6 + [(0.0, 0.0)] * (len(observations.blocks) - 6)

    assert "hidden_work" in codes(observations)


def test_processor_time_that_the_reference_uses_as_well_is_held_against_nobody() -> None:
    observations = changed(honest(), running_cpu_ns=60 * US)
    assert codes(observations) == ["hidden_work"]

    observations.peers = changed(honest(), running_cpu_ns=60 * US).blocks

    assert codes(observations) == []


def test_all_samples_of_a_control_on_one_core_count() -> None:
    """Every other sample uses 60 µs more, whoever takes it."""

    def varied(group: tuple[Observed, ...]) -> tuple[Observed, ...]:
        more_ns = (60 * US, 0.0)
        return tuple(
            replace(each, running_cpu_ns=each.running_cpu_ns + more_ns[number % 2])
            for number, each in enumerate(group)
        )

    observations = replace(honest(), peers=[])
    observations.blocks = [varied(block) for block in observations.blocks]
    observations.controls = [varied(control) for control in observations.controls]

    assert codes(observations) == []


def test_work_in_the_calls_of_batches_is_seen_where_samples_are_clean() -> None:
    observations = honest()
    observations.batches = [
        tuple(replace(o, preparing_cpu_ns=o.preparing_cpu_ns + o.count * 3 * US) for o in pair)
        for pair in observations.batches
    ]

    assert codes(observations) == ["early_compute"]


def test_what_could_be_hidden_is_said() -> None:
    observations = honest()
    most_ns = unaccounted(observations)

    assert most_ns is not None
    assert 0 <= most_ns < 0.2 * CALL_NS
    assert unaccounted(changed(observations, preparing_cpu_ns=30 * US)) > 5 * US
    observations.blocks = observations.blocks[:5]
    assert unaccounted(observations) is None


def test_work_while_others_are_timed_is_seen() -> None:
    observations = honest()
    observations.idle = [(10e6, 9e6)] * 24

    assert codes(observations) == ["background_compute"]


def test_a_few_bad_blocks_are_noise() -> None:
    observations, bad = honest(), changed(honest(), running_cpu_ns=1e6, preparing_cpu_ns=1e6)
    observations.blocks[:5] = bad.blocks[:5]

    assert judged(observations) == []


def test_less_than_six_blocks_confirm_nothing() -> None:
    observations = lying(honest(), 10.0)
    observations.blocks, observations.controls, observations.batches = (
        observations.blocks[:5],
        observations.controls[:5],
        observations.batches[:5],
    )

    assert judged(observations) == []


def test_a_batch_is_as_long_as_its_slope_needs() -> None:
    observations = honest()

    assert largest_batch(observations, most=100) == 81
    assert largest_batch(observations, most=10) == 10
    assert largest_batch(lying(observations, 1e-5), most=64) == 2


def noisy() -> Observations:
    """Every fourth control waited for a millisecond."""
    observations = honest()
    for number in range(0, len(observations.controls), 4):
        waited = (
            replace(each, outside_ns=each.outside_ns + 1e6)
            for each in observations.controls[number]
        )
        observations.controls[number] = tuple(waited)
    return observations


def test_noise_makes_batches_longer() -> None:
    assert is_noisy(noisy())
    assert not is_noisy(honest())
    assert largest_batch(noisy(), most=5000) > 10 * largest_batch(honest(), most=5000)


def test_who_makes_the_noise_is_heard_in_the_silence() -> None:
    observations, quiet = noisy(), noisy()
    observations.silences, quiet.silences = [(5e6, 3e6)] * 8, [(5e6, 20 * US)] * 8

    assert codes(observations) == ["background_compute"]
    assert codes(quiet) == []
