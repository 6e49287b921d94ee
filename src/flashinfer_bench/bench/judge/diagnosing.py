"""Why is a call wrong? It is made once more, and compared with what faulty kernels would have given."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.bench.judge.calls import FIRST
from flashinfer_bench.bench.judge.link import JobEndedError
from flashinfer_bench.bench.outcomes import Crashed, Misshapen
from flashinfer_bench.judging.choice import judged_outputs
from flashinfer_bench.judging.diagnosing import WrongCall, diagnose
from flashinfer_bench.judging.diagnosis import RepeatedCall, as_extra

if TYPE_CHECKING:
    from flashinfer_bench.bench.judge.oracle import Oracle
    from flashinfer_bench.bench.judge.participant import KeptSample, Participant
    from flashinfer_bench.judging import Tolerance
    from flashinfer_bench.judging.case import Outputs

_MOST_S = 1.0
"""Time for altered runs of the reference, all of them together; each gets a quarter of it."""


@dataclass(frozen=True, slots=True)
class WrongSample:
    """A sample with a call that was found wrong."""

    kept: KeptSample
    slot: int
    """Which of its calls."""
    got: Outputs


def diagnosis_of(
    wrong: WrongSample, participant: Participant, oracle: Oracle, tolerance: Tolerance
) -> dict[str, Any] | None:
    """Diagnose a wrong call, as JSON; None where nothing can be said, or memory does not suffice."""
    kept = wrong.kept
    repeated = _made_again(wrong, participant)
    arguments = oracle.inputs_of(kept.trial, kept.call.seed_number, kept.count)[wrong.slot]
    until_s = time.monotonic() + _MOST_S
    is_first = kept.call == FIRST
    try:
        earlier = () if is_first else _first_of(oracle, kept)
        arguments = oracle.inputs_of(kept.trial, kept.call.seed_number, kept.count)[wrong.slot]
        found = diagnose(
            WrongCall(
                definition=oracle.definition,
                outputs=judged_outputs(oracle.definition),
                inputs=arguments,
                got=wrong.got,
                expected=[each.clone() for each in oracle.run(arguments)],
                tolerance=tolerance,
                place=f"trial {kept.trial}, call {kept.call}",
                again=None if isinstance(repeated, RepeatedCall) else repeated,
                repeated=repeated if isinstance(repeated, RepeatedCall) else None,
                earlier=earlier,
            ),
            partial(oracle.run_altered, limit_s=_MOST_S / 4),
            lambda: time.monotonic() < until_s,
        )
    except torch.OutOfMemoryError:  # the job has its verdict; that is not lost for this
        return None
    return None if found is None else as_extra(found)


def _first_of(oracle: Oracle, kept: KeptSample) -> list[torch.Tensor]:
    """Give what the first call of the trial should have given: a kernel may have kept it."""
    return oracle.expected_of_first(kept.trial)


def _made_again(wrong: WrongSample, participant: Participant) -> Outputs | RepeatedCall:
    """Make the call once more; where it raises now, say so."""
    kept = wrong.kept
    if not participant.link.has_time_to_spare:
        return RepeatedCall(None, "not made: the calls had taken more than half of their time")
    try:
        if participant.asked[0].trial != kept.trial:
            participant.open_trial(kept.trial)
        sample = participant.sample(kept.trial, kept.call, kept.count, slots=(wrong.slot,))
    except JobEndedError as ended:
        if not isinstance(ended.outcome, Crashed | Misshapen):
            raise
        lines = ended.outcome.explanation.strip().splitlines()
        return RepeatedCall(None, f"it did not return: {lines[-1] if lines else ''}"[:200])
    if sample.has_lost_outputs and wrong.slot != kept.count - 1:
        return RepeatedCall(None, "not compared: its calls share one buffer")
    return sample.outputs[0]
