"""Inputs on which the reference itself raises are the dataset's fault, whatever a solution does on them."""

from __future__ import annotations

import pytest

from flashinfer_bench.bench import Benchmark
from flashinfer_bench.bench.outcomes import Crashed, DatasetFault, Outcome, Passed
from flashinfer_bench.data import (
    AxisConst,
    AxisVar,
    Definition,
    RandomInput,
    TensorSpec,
    Trace,
    TraceSet,
    Workload,
)
from tests.flow.kernels import quick, solution
from tests.marks import mostly_full

SCAN = Definition(
    name="state_update",
    op_type="ssm",
    axes={"slots": AxisConst(value=1000), "batch": AxisVar(), "d": AxisConst(value=4)},
    inputs={
        "state": TensorSpec(shape=["slots", "d"], dtype="float32"),
        "x": TensorSpec(shape=["batch", "d"], dtype="float32"),
        "state_indices": TensorSpec(shape=["batch"], dtype="int32"),
    },
    outputs={"y": TensorSpec(shape=["batch", "d"], dtype="float32")},
    reference=(
        "import torch\n\n"
        "def run(state, x, state_indices):\n"
        "    return state.index_select(0, state_indices.long() % 1024) * 0.5 + x\n"
    ),
)
"""Of the integers that are drawn by default, a few in a hundred choose a state there is none of."""
INDEXES = (
    "def run(state, x, state_indices):\n    return state[state_indices.long() % 1024] * 0.5 + x\n"
)
DIES = """
import os, signal
def run(state, x, state_indices):
    if int((state_indices % 1024).max()) >= len(state):
        os.kill(os.getpid(), signal.SIGSEGV)
    return state[state_indices.long() % 1024] * 0.5 + x
"""
DIES_LATER = """
import os, signal
spoilt = []
def run(state, x, state_indices):
    if spoilt:
        os.kill(os.getpid(), signal.SIGSEGV)
    wanted = state_indices.long() % 1024
    spoilt.extend([1] if int(wanted.max()) >= len(state) else [])
    return state[wanted.clamp(max=len(state) - 1)] * 0.5 + x
"""
HANGS = """
def run(state, x, state_indices):
    while int((state_indices % 1024).max()) >= len(state):
        pass
    return state[state_indices.long() % 1024] * 0.5 + x
"""
GUILTY = "def run(state, x, state_indices):\n    raise IndexError('index out of range')\n"
CRASHES = "import os\ndef run(state, x, state_indices):\n    os.abort()\n"


DRAWS = (2, 6)
LEGAL = {"type": "integers", "low": 0, "high": 1000}


def workload(uuid: str, distribution: object = None) -> Workload:
    indices = RandomInput.model_validate({"distribution": distribution})
    inputs = {"state": RandomInput(), "x": RandomInput(), "state_indices": indices}
    return Workload(axes={"batch": 4}, inputs=inputs, uuid=uuid)


@pytest.fixture(scope="module", params=mostly_full(DRAWS, 2))
def outcomes(request: pytest.FixtureRequest) -> dict[tuple[str, str], Outcome]:
    """How each solution ends on some draws of indices nobody declared, and on legal ones."""
    sources = {"indexes": INDEXES, "dies": DIES, "dies_later": DIES_LATER, "hangs": HANGS}
    sources |= {"guilty": GUILTY, "crashes": CRASHES}
    workloads = [workload(f"draw {number}") for number in range(request.param)]
    workloads += [workload("legal", LEGAL)]
    store = TraceSet(
        definitions={SCAN.name: SCAN},
        solutions={
            SCAN.name: [
                solution(source, name=name, definition=SCAN.name)
                for name, source in sources.items()
            ]
        },
        workloads={SCAN.name: [Trace(definition=SCAN.name, workload=w) for w in workloads]},
    )
    config = quick(seed=0, num_trials=2, timeout_seconds=2)
    with Benchmark(store, config, device="cpu") as benchmark:
        return {
            (step.job.solution.name, step.job.workload.uuid): step.outcome
            for step in benchmark.run(benchmark.plan())
        }


@pytest.mark.parametrize("name", ["indexes", "dies", "dies_later", "hangs"])
def test_indices_nobody_declared_are_never_the_solutions_fault(
    outcomes: dict[tuple[str, str], Outcome], name: str
) -> None:
    drawn = [found for (made, uuid), found in outcomes.items() if made == name and "draw" in uuid]

    assert len(drawn) in DRAWS
    for found in drawn:
        assert isinstance(found, DatasetFault), found
        assert "state_indices: integers that may lie out of range" in found.explanation
        assert '"distribution"' in found.explanation


def test_some_of_them_are_found_by_a_solution_first(
    outcomes: dict[tuple[str, str], Outcome],
) -> None:
    said = [each.explanation for each in outcomes.values() if isinstance(each, DatasetFault)]

    assert any(text.startswith("a solution failed on inputs drawn") for text in said)


@pytest.mark.parametrize("name", ["guilty", "crashes"])
def test_what_fails_on_legal_inputs_is_to_blame(
    outcomes: dict[tuple[str, str], Outcome], name: str
) -> None:
    assert isinstance(outcomes[name, "legal"], Crashed)


@pytest.mark.parametrize("name", ["indexes", "dies", "dies_later", "hangs"])
def test_declared_indices_are_legal(outcomes: dict[tuple[str, str], Outcome], name: str) -> None:
    assert isinstance(outcomes[name, "legal"], Passed)
