"""Which calls of a trial are looked at before a solution is blamed for how it ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flashinfer_bench.bench.config import ResolvedEvalConfig
from flashinfer_bench.bench.judge.calls import CallId
from flashinfer_bench.bench.judge.checking import Checker
from flashinfer_bench.bench.judge.oracle import Oracle, ReferenceFailedError
from flashinfer_bench.bench.judge.participant import Asked
from flashinfer_bench.bench.outcomes import Aborted, Crashed, Decision, TimedOut
from tests.unit.bench.judge.test_oracle import oracle_for

POSITIVE_ONLY = """
def run(x):
    if x[0] < 0:
        raise ValueError("negative")
    return x + 1
"""
TIMED_OUT = TimedOut("it did not return within 2 s")
ABORTED = Aborted("candidate", "its process was ended by SIGSEGV")
RAISED = Crashed("ValueError: negative")


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """Makes inputs of which about one in two makes the reference raise."""
    return oracle_for(POSITIVE_ONLY, tmp_path_factory.mktemp("builds"))[0]


def asked(oracle: Oracle, *, are_legal: list[bool]) -> Any:
    """Make a participant that was asked for calls whose inputs the reference takes, or does not."""
    calls = [CallId("timed", number) for number in range(40)]
    legal = {call: oracle.inputs_of(0, call.seed_number)[0][0][0] >= 0 for call in calls}
    chosen = []
    for wanted in are_legal:
        call = next(each for each in calls if legal[each] == wanted and each not in chosen)
        chosen.append(call)
    return SimpleNamespace(asked=[Asked(0, call) for call in chosen])


@pytest.mark.parametrize("ending", [TIMED_OUT, ABORTED], ids=["hangs", "ends"])
def test_a_process_may_have_been_spoilt_by_any_earlier_call(
    oracle: Oracle, ending: Decision
) -> None:
    checker = Checker(oracle, ResolvedEvalConfig())

    with pytest.raises(ReferenceFailedError, match="a solution failed on inputs drawn"):
        checker.require_legal_inputs(asked(oracle, are_legal=[True, False, True, True]), ending)


@pytest.mark.parametrize("ending", [TIMED_OUT, ABORTED, RAISED], ids=["hangs", "ends", "raises"])
def test_what_fails_after_legal_calls_only_is_to_blame(oracle: Oracle, ending: Decision) -> None:
    Checker(oracle, ResolvedEvalConfig()).require_legal_inputs(
        asked(oracle, are_legal=[True, True, True]), ending
    )


def test_what_raises_is_looked_at_in_its_last_call_only(oracle: Oracle) -> None:
    checker = Checker(oracle, ResolvedEvalConfig())

    checker.require_legal_inputs(asked(oracle, are_legal=[False, True]), RAISED)
    with pytest.raises(ReferenceFailedError):
        checker.require_legal_inputs(asked(oracle, are_legal=[True, False]), RAISED)
