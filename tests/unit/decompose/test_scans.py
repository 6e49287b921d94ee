"""Loops over a sequence: one kernel with a length, whatever way they are written; and what is no such loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import flashinfer_bench as fib
from flashinfer_bench.data import Definition, TraceSet
from flashinfer_bench.decompose.ir import LEVELS

WIDTH = 8
ROUNDS = 6


class ByIndex(nn.Module):
    """States from zeros; the last one and all of them are returned."""

    def __init__(self) -> None:
        super().__init__()
        self.of_input = nn.Linear(WIDTH, WIDTH)
        self.of_state = nn.Linear(WIDTH, WIDTH)

    def states(self, x: torch.Tensor) -> list[torch.Tensor]:
        state = torch.zeros(x.shape[0], WIDTH)
        states = []
        for at in range(x.shape[1]):
            state = torch.tanh(self.of_input(x[:, at]) + self.of_state(state))
            states.append(state)
        return states

    def forward(self, x: torch.Tensor) -> Any:
        states = self.states(x)
        return torch.stack(states, 1), states[-1]


class Unbound(ByIndex):
    """Takes the parts of what was split, and joins what it made by `cat`."""

    def forward(self, x: torch.Tensor) -> Any:
        state = x.new_zeros(x.shape[0], WIDTH)
        states = []
        for part in x.unbind(1):
            state = torch.tanh(self.of_input(part) + self.of_state(state))
            states.append(state[:, None])
        return torch.cat(states, dim=1)


class Backwards(ByIndex):
    """Goes from the end to the beginning."""

    def forward(self, x: torch.Tensor) -> Any:
        state = x.new_zeros(x.shape[0], WIDTH)
        filled = torch.empty_like(x)
        for at in reversed(range(x.shape[1])):
            state = torch.tanh(self.of_input(x[:, at]) + self.of_state(state))
            filled[:, at] = state
        return filled


class TwoStates(nn.Module):
    """Two states that need each other, given from outside; of the last one nothing is used."""

    def forward(self, x: torch.Tensor, fast: torch.Tensor, slow: torch.Tensor) -> Any:
        out = []
        for at in range(x.shape[0]):
            fast, slow = 0.5 * fast + slow * x[at], 0.9 * slow + 0.1 * fast
            out.append(torch.sigmoid(fast))
        return torch.stack(out)


class ByPairs(nn.Module):
    """Two tokens a round, so that the number of rounds is half the length."""

    def forward(self, x: torch.Tensor) -> Any:
        state = torch.zeros_like(x[:, 0])
        states = []
        for at in range(x.shape[1] // 2):
            pair = x[:, 2 * at : 2 * at + 2]
            state = torch.tanh(pair.sum(1) * 0.5 + state * 0.5) + 0.1 * state
            states.append(state)
        return torch.stack(states, 1)


class BothWays(ByIndex):
    """Two loops with the same weights, one after the other."""

    def forward(self, x: torch.Tensor) -> Any:
        first, last = x.new_zeros(x.shape[0], WIDTH), x.new_ones(x.shape[0], WIDTH)
        there, back = [], []
        for at in range(x.shape[1]):
            first = torch.tanh(self.of_input(x[:, at]) + self.of_state(first))
            there.append(first)
        for at in reversed(range(x.shape[1])):
            last = torch.tanh(self.of_input(x[:, at]) + self.of_state(last))
            back.append(last)
        return torch.cat([torch.stack(there, 1), torch.stack(back, 1).flip(1)], -1)


class OneState(BothWays):
    """Two loops of which the second goes on with zeros made before the first."""

    def __init__(self) -> None:
        super().__init__()
        self.of_input_back = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> Any:
        state = other = x.new_zeros(x.shape[0], WIDTH)
        there, back = [], []
        for at in range(x.shape[1]):
            state = torch.tanh(self.of_input(x[:, at]) + self.of_state(state))
            there.append(state)
        for at in reversed(range(x.shape[1])):
            other = torch.tanh(self.of_input_back(x[:, at]) + self.of_state(other))
            back.append(other)
        return torch.stack(there, 1), torch.stack(back, 1)


class ReadsItsOutput(nn.Module):
    """Each round reads what the last one wrote into the output."""

    def forward(self, x: torch.Tensor) -> Any:
        out = torch.zeros_like(x)
        out[:, 0] = x[:, 0]
        for at in range(1, x.shape[1]):
            out[:, at] = torch.tanh(out[:, at - 1] * 0.7 + x[:, at]) + 0.1 * x[:, at]
        return out


def sequence(length: int) -> torch.Tensor:
    return torch.randn(2, length, WIDTH, generator=torch.Generator().manual_seed(length))


def two_states(length: int) -> tuple[torch.Tensor, ...]:
    return (sequence(length).transpose(0, 1), torch.ones(2, WIDTH), torch.zeros(2, WIDTH))


LOOPS = {
    "by_index": (ByIndex(), lambda length: (sequence(length),)),
    "unbound": (Unbound(), lambda length: (sequence(length),)),
    "backwards": (Backwards(), lambda length: (sequence(length),)),
    "two_states": (TwoStates(), two_states),
    "by_pairs": (ByPairs(), lambda length: (sequence(2 * length),)),
    "reads_its_output": (ReadsItsOutput(), lambda length: (sequence(length),)),
}


def begun(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Make what is written before the loop of `ReadsItsOutput`, which is no part of it."""
    out = torch.zeros_like(x)
    out[:, 0] = x[:, 0]
    return out, x


def scans_in(found: fib.Decomposition) -> list[Any]:
    return [each for each in found.tree.walk() if "scan" in each.tags]


def definition_of_scan(folder: Path) -> Definition:
    definitions = TraceSet.from_path(str(folder / "dataset")).definitions.values()
    (found,) = [each for each in definitions if "for step in range" in each.reference]
    return found


def run_of(definition: Definition, module: nn.Module, tensors: tuple[torch.Tensor, ...]) -> Any:
    """Run a definition's reference on tensors, with a module's weights."""
    names: dict[str, Any] = {}
    exec(definition.reference, names)
    weights = {f"the model's weight {name}": value for name, value in module.named_parameters()}
    given = iter(tensors)
    with torch.no_grad():
        return names["run"](
            *(
                next(given) if spec.role == "dynamic" else weights[spec.description]
                for spec in definition.inputs.values()
            )
        )


@pytest.mark.parametrize("name", sorted(LOOPS))
def test_a_loop_is_one_kernel_and_verified(name: str, tmp_path: Path) -> None:
    module, inputs = LOOPS[name]

    found = fib.decompose(module.eval(), inputs(ROUNDS), name=name)
    found.write(tmp_path / "out")
    verified = found.verify(tmp_path / "out")

    assert [each.level for each in scans_in(found)] == ["kernel"]
    assert (verified.passed, verified.equality) == (True, "bit-equal")


@pytest.mark.parametrize("name", sorted({*LOOPS} - {"by_pairs"}))
@pytest.mark.parametrize("length", [4, ROUNDS, 17])
def test_its_reference_is_the_model_at_any_length(name: str, length: int, tmp_path: Path) -> None:
    module, inputs = LOOPS[name]
    fib.decompose(module.eval(), inputs(ROUNDS), name=name).write(tmp_path / "out")
    definition = definition_of_scan(tmp_path / "out")
    tensors = inputs(length)
    given = begun(*tensors) if name == "reads_its_output" else tensors

    made = run_of(definition, module, given)
    with torch.no_grad():
        expected = module(*tensors)

    pairs = zip(expected, made, strict=True) if isinstance(expected, tuple) else [(expected, made)]
    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("module", [BothWays(), OneState()], ids=["both_ways", "one_state"])
def test_two_loops_are_two_kernels_of_any_length(module: nn.Module, tmp_path: Path) -> None:
    found = fib.decompose(module.eval(), (sequence(ROUNDS),), name="two")
    found.write(tmp_path / "out", levels=LEVELS)
    whole = TraceSet.from_path(str(tmp_path / "out/dataset")).definitions[found.pieces.root.id]

    assert len(scans_in(found)) == 2
    assert found.verify(tmp_path / "out").passed
    for length in (4, 17):
        with torch.no_grad():
            expected = module(sequence(length))
        made = run_of(whole, module, (sequence(length),))
        pairs = zip(made, expected, strict=True)
        assert all(torch.equal(*each) for each in pairs)


class Windows(nn.Module):
    """Each round reads more than the last one."""

    def forward(self, x: torch.Tensor) -> Any:
        state = x[:, 0] * 0
        states = []
        for at in range(x.shape[1]):
            state = torch.tanh(x[:, : at + 1].sum(1) * 0.5 + state) + 0.1
            states.append(state)
        return torch.stack(states, 1)


class Independent(nn.Module):
    """No round needs another."""

    def forward(self, x: torch.Tensor) -> Any:
        rows = [torch.tanh(x[:, at] * 0.5 + 1) * x[:, at].sigmoid() for at in range(x.shape[1])]
        return torch.stack(rows, 1)


class Deep(ByIndex):
    """The same layer several times: nothing is followed."""

    def forward(self, x: torch.Tensor) -> Any:
        for _ in range(ROUNDS):
            x = x + torch.tanh(self.of_state(torch.relu(self.of_input(x))))
        return x


class Peeping(ByIndex):
    """A state in the middle is used apart from the others."""

    def forward(self, x: torch.Tensor) -> Any:
        states = self.states(x)
        return torch.stack(states, 1), states[2] * 2


class Dropping(ByIndex):
    """Rounds draw random numbers."""

    def forward(self, x: torch.Tensor) -> Any:
        state = x.new_zeros(x.shape[0], WIDTH)
        for at in range(x.shape[1]):
            state = torch.tanh(torch.dropout(self.of_input(x[:, at]), 0.5, train=True) + state)
        return state


class FirstPart(ByIndex):
    """The state begins with a part of what the loop goes over."""

    def forward(self, x: torch.Tensor) -> Any:
        state, *parts = x.unbind(1)
        for part in parts:
            state = torch.tanh(self.of_input(part) + self.of_state(state))
        return state


class Experts(nn.Module):
    """Each round has weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(6, WIDTH, WIDTH))
        self.down = nn.Parameter(torch.randn(6, WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> Any:
        shares = torch.softmax(x, -1)
        total = torch.zeros_like(x)
        for at in range(6):
            total = total + shares[..., at : at + 1] * (torch.relu(x @ self.up[at]) @ self.down[at])
        return total


class Scaled(ByIndex):
    """What all rounds made is put together with what follows from it."""

    def forward(self, x: torch.Tensor) -> Any:
        states = self.states(x)
        return tuple(torch._foreach_mul(states, states[-1].sum()))


NO_SCANS = {
    "windows": Windows(),
    "independent": Independent(),
    "deep": Deep(),
    "peeping": Peeping(),
    "dropping": Dropping(),
    "first_part": FirstPart(),
    "experts": Experts(),
    "scaled": Scaled(),
}


@pytest.mark.parametrize("name", sorted(NO_SCANS))
def test_what_is_no_such_loop_stays_in_pieces(name: str, tmp_path: Path) -> None:
    found = fib.decompose(NO_SCANS[name].eval(), (sequence(8),), name=name)

    assert scans_in(found) == []
    found.write(tmp_path / "out")
    assert found.verify(tmp_path / "out").passed


def test_the_rule_can_be_turned_off(tmp_path: Path) -> None:
    file = tmp_path / "overrides.yaml"
    file.write_text("rules:\n  scans: off\n")
    module, inputs = LOOPS["by_index"]

    found = fib.decompose(module.eval(), inputs(ROUNDS), name="by_index", overrides=file)
    found.write(tmp_path / "out")

    assert scans_in(found) == []
    assert found.verify(tmp_path / "out").passed


def test_a_loop_has_one_identity_whatever_its_length() -> None:
    module, inputs = LOOPS["two_states"]

    one, other = (fib.decompose(module, inputs(length), name="x") for length in (6, 9))

    assert one.pieces.root.identity == other.pieces.root.identity
