"""How calls are answered: by which solution, in which style, and by the fallback when none may."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from flashinfer_bench.apply import ApplyConfig, ApplyConfigRegistry, ApplyRuntime, apply
from flashinfer_bench.errors import NestingError, NoFallbackError
from tests.unit.apply.datasets import HERE, dataset, definition, marked, solution, trace

INTO = "def run(A, B, C):\n    C.copy_(A).add_(B)\n"
TWO, THREE, MANY = torch.ones(2, 4), torch.ones(3, 4), torch.ones(99, 4)
TWO_SIZES = [
    trace("fast", {"M": 2}, 3),
    trace("slow", {"M": 2}, 1),
    trace("slow", {"M": 3}, 2),
]


def runtime(
    *, solutions: Any = None, traces: Any = None, definitions: Any = None, **config: Any
) -> ApplyRuntime:
    return ApplyRuntime(
        dataset(
            solutions or [marked("fast", 7), marked("slow", 5)], traces or TWO_SIZES, definitions
        ),
        ApplyConfig(**config),
    )


def fallback(A: Any, B: Any) -> Any:
    return torch.full_like(A, -1.0)


def mark(answer: Any) -> float:
    return float(answer.flatten()[0])


def test_each_size_is_answered_by_its_winner() -> None:
    with runtime():
        answers = [apply("add", (each, each), fallback=fallback) for each in (TWO, THREE)]

    assert [mark(each) for each in answers] == [7, 5]


@pytest.mark.parametrize(
    ("policy", "answer"), [("fallback_only", -1), ("use_def_best", 7), ("use_nearest", 5)]
)
def test_a_size_that_was_not_measured_is_answered_by_policy(policy: str, answer: int) -> None:
    with runtime(on_miss_policy=policy):
        assert mark(apply("add", (MANY, MANY), fallback=fallback)) == answer


def test_a_miss_without_fallback_is_a_runtime_error_that_names_the_definition() -> None:
    with runtime(), pytest.raises(RuntimeError, match="'add'"):
        apply("add", (MANY, MANY))
    with runtime(), pytest.raises(NoFallbackError):
        apply("unknown", (MANY, MANY))


@pytest.mark.parametrize("into", [False, True])
def test_with_outputs_passed_in_they_are_filled_and_nothing_is_returned(into: bool) -> None:
    source = INTO if into else "def run(A, B):\n    return A + B\n"
    out = torch.empty(2, 4)

    with runtime(solutions=[solution("only", source, into=into)], traces=[trace("only", {"M": 2})]):
        returned = [apply("add", (TWO, TWO, out)) for _ in range(2)]

    assert returned == [None, None]
    assert torch.equal(out, TWO + TWO)


def test_outputs_for_a_solution_that_takes_them_are_made_anew_for_each_call() -> None:
    only = solution("only", INTO, into=True)

    with runtime(solutions=[only], traces=[trace("only", {"M": 2})]):
        first, second = (apply("add", (TWO, each)) for each in (TWO, 2 * TWO))

    assert torch.equal(first, 2 * TWO)
    assert torch.equal(second, 3 * TWO)
    assert first.shape == (2, 4)
    assert first.dtype is torch.float32


def test_several_outputs_of_different_shapes_and_dtypes_are_made_as_declared() -> None:
    source = "def run(A, B, C, D):\n    C.copy_(A + B)\n    D.copy_(A.sum(-1))\n"
    matrix, row = {"shape": ["M", "N"], "dtype": "float32"}, {"shape": ["M"], "dtype": "float16"}
    two = definition(outputs={"C": matrix, "D": row})

    with runtime(
        solutions=[solution("only", source, into=True)],
        traces=[trace("only", {"M": 2})],
        definitions=[two],
    ):
        C, D = apply("add", (TWO, TWO))

    assert torch.equal(C, 2 * TWO)
    assert torch.equal(D, torch.full((2,), 4.0, dtype=torch.float16))


def test_a_wrong_number_of_arguments_is_a_value_error() -> None:
    with runtime(), pytest.raises(ValueError, match="add takes 2 inputs, or 3 arguments"):
        apply("add", (TWO, TWO, TWO, TWO), fallback=fallback)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {"A": TWO, "B": TWO}),
        ((TWO,), {"B": TWO}),
        ((TWO, TWO), {"page_size": 16}),
    ],
)
def test_arguments_may_be_given_by_name_and_unknown_names_are_dropped(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with runtime():
        assert mark(apply("add", args, kwargs, fallback=fallback)) == 7


def test_the_fallback_of_a_miss_gets_args_and_kwargs_as_they_were() -> None:
    seen: list[Any] = []

    with runtime():
        apply("add", (MANY,), {"B": MANY, "x": 1}, fallback=lambda *a, **k: seen.append((a, k)))

    ((args, kwargs),) = seen
    assert args[0] is MANY
    assert list(kwargs) == ["B", "x"]


def test_an_argument_given_twice_is_a_type_error() -> None:
    with runtime(), pytest.raises(TypeError, match="'A'"):
        apply("add", (TWO,), {"A": TWO}, fallback=fallback)


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ((TWO.double(), TWO), "A: torch.float64 is not float32"),
        ((TWO, torch.ones(4, 2).T), "B: not contiguous"),
        ((TWO, torch.ones(2, 4, requires_grad=True)), "B: needs a gradient"),
        ((torch.ones(2, 5), torch.ones(2, 5)), "shapes that do not fit"),
        ((TWO, THREE), "shapes that do not fit"),
        ((torch.ones(2, 4, 1), TWO), "shapes that do not fit"),
        ((TWO, 3.0), "B: float where another kind was declared"),
        ((TWO.as_subclass(type("Mine", (torch.Tensor,), {})), TWO), "A: Mine is no plain tensor"),
        ((TWO.to("meta"), TWO), "a tensor on a device that is not here"),
        ((MANY, MANY), "M=99: not measured"),
    ],
)
def test_a_call_that_was_not_measured_like_this_is_the_fallbacks_and_counted(
    args: tuple[Any, ...], reason: str
) -> None:
    with runtime() as running:
        answers = [apply("add", args, fallback=lambda *_: "fallback") for _ in range(3)]

    assert answers == ["fallback"] * 3
    assert running.stats().misses_by_definition == {"add": {reason: 3}}


def test_a_parameter_without_need_of_a_gradient_is_as_good_as_a_tensor() -> None:
    weight = torch.nn.Parameter(TWO.clone())

    with runtime():
        with torch.no_grad():
            quiet = apply("add", (TWO, weight), fallback=fallback)
        learning = apply("add", (TWO, weight), fallback=fallback)

    assert [mark(quiet), mark(learning)] == [7, -1]


def test_outputs_of_other_shapes_than_the_inputs_ask_for_are_the_fallbacks() -> None:
    with runtime():
        answer = apply("add", (TWO, TWO, THREE), fallback=lambda *_: "fallback")

    assert answer == "fallback"


def test_traces_of_other_devices_are_used_only_where_that_is_allowed() -> None:
    elsewhere = [trace("fast", {"M": 2}, hardware="another device")]

    with runtime(traces=elsewhere):
        here = mark(apply("add", (TWO, TWO), fallback=fallback))
    with runtime(traces=elsewhere, allow_other_hardware=True):
        there = mark(apply("add", (TWO, TWO), fallback=fallback))

    assert HERE != "another device"
    assert [here, there] == [-1, 7]


def test_a_kernel_that_raises_is_put_under_quarantine_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    raises = solution("raises", "def run(A, B):\n    raise ZeroDivisionError('by zero')\n")
    traces = [trace("raises", {"M": 2}), trace("raises", {"M": 3})]

    with runtime(solutions=[raises], traces=traces) as running:
        answers = [apply("add", (each, each), fallback=fallback) for each in (TWO, TWO, THREE)]

    stats = running.stats()
    assert [mark(each) for each in answers] == [-1, -1, -1]
    assert stats.quarantined == {"raises": "raised ZeroDivisionError: by zero"}
    assert stats.hits == 0
    assert caplog.text.count("raises is under quarantine") == 1


def test_a_kernel_error_that_looks_like_a_lookup_error_is_a_kernels_error() -> None:
    raises = solution("raises", "def run(A, B):\n    raise KeyError('mine')\n")

    with runtime(solutions=[raises], traces=[trace("raises", {"M": 2})]) as running:
        assert mark(apply("add", (TWO, TWO), fallback=fallback)) == -1
        assert mark(apply("add", (), {"A": TWO, "B": TWO}, fallback=fallback)) == -1

    assert list(running.stats().quarantined) == ["raises"]


def test_want_of_memory_is_not_held_against_a_kernel() -> None:
    source = "import torch\n\ndef run(A, B):\n    raise torch.OutOfMemoryError('full')\n"
    greedy = solution("greedy", source)

    with runtime(solutions=[greedy], traces=[trace("greedy", {"M": 2})]) as running:
        answer = mark(apply("add", (TWO, TWO), fallback=fallback))

    assert answer == -1
    assert running.stats().quarantined == {}


def test_a_winner_that_does_not_build_neither_stops_the_start_nor_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = solution("broken", "import no_such_package_at_all\n\ndef run(A, B):\n    ...\n")
    traces = [trace("broken", {"M": 2}, 9), trace("slow", {"M": 3})]

    with runtime(solutions=[broken, marked("slow", 5)], traces=traces):
        answers = [apply("add", (each, each), fallback=fallback) for each in (TWO, THREE)]

    assert [mark(each) for each in answers] == [-1, 5]
    assert "broken is under quarantine" in caplog.text


def test_an_error_of_the_fallback_is_the_callers() -> None:
    def fails(A: Any, B: Any) -> Any:
        raise KeyError("the program's own")

    with runtime(), pytest.raises(KeyError, match="the program's own"):
        apply("add", (MANY, MANY), fallback=fails)


def test_definitions_left_out_of_a_registry_stay_with_their_fallback() -> None:
    registry = ApplyConfigRegistry().register("other", ApplyConfig())
    running = ApplyRuntime(dataset([marked("fast", 7)], TWO_SIZES), registry)

    with running:
        assert mark(apply("add", (TWO, TWO), fallback=fallback)) == -1


def test_a_decorated_function_keeps_its_name_its_words_and_itself() -> None:
    @apply("add")
    def add(A: Any, B: Any) -> Any:
        """Add."""
        return A + B

    assert (add.__name__, add.__doc__) == ("add", "Add.")
    assert add.__wrapped__(1, 2) == 3  # type: ignore[attr-defined]
    assert add(1, B=2) == 3


def test_a_decorated_function_is_answered_while_enabled_and_itself_afterwards() -> None:
    add = apply("add")(fallback)

    before = mark(add(TWO, TWO))
    with runtime():
        during = [mark(add(TWO, TWO)), mark(add(TWO, B=TWO)), mark(add(MANY, MANY))]
    after = mark(add(TWO, TWO))

    assert (before, during, after) == (-1, [7, 7, -1], -1)


def test_a_resolver_gets_the_arguments_and_names_the_definition() -> None:
    def resolver(A: Any, B: Any) -> str:
        return "add" if A.shape[0] == 2 else "unknown"

    decorated = apply(resolver)(fallback)
    with runtime():
        answers = [
            decorated(TWO, TWO),
            decorated(THREE, B=THREE),
            apply(resolver, (TWO,), {"B": TWO}, fallback),
        ]

    assert [mark(each) for each in answers] == [7, -1, 7]


def test_with_nothing_enabled_the_fallback_gets_everything_unchanged() -> None:
    assert apply("add", (1,), {"B": 2}, lambda A, B: (A, B)) == (1, 2)
    assert apply("add", (), fallback=lambda: "nothing") == "nothing"
    with pytest.raises(RuntimeError):
        apply("add", (1,))


def test_the_newest_of_nested_runtimes_answers_and_they_stop_in_order() -> None:
    outer, inner = (
        runtime(),
        runtime(solutions=[marked("only", 3)], traces=[trace("only", {"M": 2})]),
    )

    with outer:
        with inner:
            inside = mark(apply("add", (TWO, TWO), fallback=fallback))
            with pytest.raises(NestingError, match="LIFO"):
                outer.stop()
        after = mark(apply("add", (TWO, TWO), fallback=fallback))

    assert [inside, after] == [3, 7]
    with pytest.raises(RuntimeError):
        outer.stop()


def test_starting_the_runtime_in_force_again_does_nothing_and_a_lower_one_comes_on_top() -> None:
    lower, upper = (
        runtime(),
        runtime(solutions=[marked("only", 3)], traces=[trace("only", {"M": 2})]),
    )
    for each in (lower, lower, upper, lower):
        each.start()
    on_top = ApplyRuntime.get_instance()
    for each in (lower, upper, lower):
        each.stop()

    assert on_top is lower
    assert ApplyRuntime.get_instance() is None


def test_the_same_solution_builds_once_for_all_sizes(tmp_path: Any) -> None:
    log = tmp_path / "builds"
    source = f"open({str(log)!r}, 'a').write('built ')\n\ndef run(A, B):\n    return A + B\n"
    traces = [trace("only", {"M": 2}), trace("only", {"M": 3})]

    with runtime(solutions=[solution("only", source)], traces=traces, aot_ratio=0.0):
        built_at_start = log.exists()
        for each in (TWO, THREE, TWO):
            apply("add", (each, each))

    assert not built_at_start
    assert log.read_text() == "built "


def test_winners_are_built_when_the_runtime_starts(tmp_path: Any) -> None:
    log = tmp_path / "builds"
    source = f"open({str(log)!r}, 'a').write('built ')\n\ndef run(A, B):\n    return A - B\n"

    with runtime(solutions=[solution("only", source)], traces=[trace("only", {"M": 2})]):
        at_start = log.read_text()

    assert at_start == "built "


def test_a_tuple_of_one_is_its_element() -> None:
    one = solution("one", "def run(A, B):\n    return (A + B,)\n")

    with runtime(solutions=[one], traces=[trace("one", {"M": 2})]):
        answers = [apply("add", (TWO, TWO)) for _ in range(2)]

    assert all(torch.equal(each, 2 * TWO) for each in answers)


def test_scalars_are_passed_on_and_a_tensor_in_their_place_is_the_fallbacks() -> None:
    matrix = {"shape": ["M", "N"], "dtype": "float32"}
    scaled = definition(inputs={"A": matrix, "s": {"shape": None, "dtype": "float32"}})
    scales = solution("scales", "def run(A, s):\n    return A * s\n")

    with runtime(solutions=[scales], traces=[trace("scales", {"M": 2})], definitions=[scaled]):
        answers = [
            apply("add", (TWO, each), fallback=fallback) for each in (2.0, 3, torch.tensor(4.0))
        ]

    assert [mark(each) for each in answers] == [2, 3, -1]


def test_prepare_runs_once_for_each_set_of_static_inputs_and_plan_before_each_call() -> None:
    source = (
        "def pack(B):\n    return {'B': B * 10, 'packed': []}\n\n"
        "def plan(state, A):\n    state['packed'].append(1)\n    return state\n\n"
        "def run(state, A, B):\n    return A * 0 + state['B'] + len(state['packed'])\n"
    )
    matrix = {"shape": ["M", "N"], "dtype": "float32"}
    roles = definition(
        inputs={"A": {**matrix, "role": "metadata"}, "B": {**matrix, "role": "static"}}
    )
    prepared = solution("prepared", source, prepare="pack", plan="plan")
    other = 2 * TWO

    with runtime(
        solutions=[prepared],
        traces=[trace("prepared", {"M": 2})],
        definitions=[roles],
        static_inputs_never_change=True,
    ) as running:
        answers = [mark(apply("add", (TWO, each))) for each in (TWO, TWO, other, TWO)]

    assert answers == [11, 12, 21, 13]
    assert running.stats().quarantined == {}


def test_more_sizes_than_are_remembered_are_still_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashinfer_bench.apply.dispatcher._MOST_KEYS", 1)

    with runtime():
        answers = [apply("add", (each, each), fallback=fallback) for each in (TWO, THREE, THREE)]

    assert [mark(each) for each in answers] == [7, 5, 5]


def test_a_size_measured_on_another_card_says_so_and_is_taken_only_if_allowed() -> None:
    elsewhere = [trace("fast", {"M": 2}, 3, hardware="another card")]

    with runtime(traces=elsewhere) as running:
        apply("add", (TWO, TWO), fallback=fallback)
        apply("add", (MANY, MANY), fallback=fallback)
        misses = running.stats().misses_by_definition
    with runtime(traces=elsewhere, allow_other_hardware=True):
        answer = apply("add", (TWO, TWO), fallback=fallback)

    assert misses == {"add": {"M=2: measured on other hardware": 1, "M=99: not measured": 1}}
    assert mark(answer) == 7
