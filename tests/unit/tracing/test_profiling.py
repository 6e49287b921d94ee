"""`fib.profile_model`: counts by definition and sizes, and the profile they become."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import flashinfer_bench as fib
from flashinfer_bench.data import Definition, Profile, TraceSet
from flashinfer_bench.intercept import CHAIN, Call

from .conftest import GATHER, call


def run(*args: Any, name: str = "gather_d4") -> Any:
    return CHAIN.call(name, args, {}, lambda *_: None)


def counts(profile: Profile) -> list[tuple[str, dict[str, int], int]]:
    return [
        (use.kernel.definition, use.kernel.axes, use.count)  # type: ignore[union-attr]
        for use in profile.kernels
    ]


def test_calls_are_counted_by_definition_and_sizes(trace_set: TraceSet) -> None:
    with fib.profile_model("llama", trace_set=trace_set) as profiled:
        for rows in (3, 3, 5, 3):
            run(*call(rows))

    assert counts(profiled.profile) == [
        ("gather_d4", {"rows": 3, "picked": 2}, 3),
        ("gather_d4", {"rows": 5, "picked": 2}, 1),
    ]
    assert not CHAIN.active


def test_the_profile_lies_in_the_dataset_and_loads_again(
    trace_set: TraceSet, tmp_path: Path
) -> None:
    with fib.profile_model("org/llama", dataset_path=tmp_path, framework="vLLM") as profiled:
        run(*call())

    path = tmp_path / "profiles" / "vLLM" / "org--llama.json"
    assert profiled.path == path
    loaded = Profile.load(path)
    assert loaded == profiled.profile
    assert (loaded.model, loaded.framework) == ("org/llama", "vLLM")


def test_calls_by_keyword_and_with_outputs_count_as_the_same_sizes(trace_set: TraceSet) -> None:
    x, indices, scale = call()

    with fib.profile_model(trace_set=trace_set) as profiled:
        run(x, indices, scale)
        run(x, indices, scale, torch.empty(2, 4))
        CHAIN.call("gather_d4", (x,), {"scale": scale, "indices": indices}, lambda *_, **__: None)

    assert counts(profiled.profile) == [("gather_d4", {"rows": 3, "picked": 2}, 3)]


def test_calls_that_fit_no_definition_are_named(trace_set: TraceSet) -> None:
    with fib.profile_model(trace_set=trace_set) as profiled:
        run(*call(), name="gemm_n4096")
        run(torch.ones(3, 5), *call()[1:])

    assert counts(profiled.profile) == []
    assert profiled.unknown == {
        "gemm_n4096: no definition is called so": 1,
        "gather_d4: it does not fit": 1,
    }


def test_a_call_inside_a_counted_call_is_part_of_it(trace_set: TraceSet) -> None:
    trace_set.definitions["outer"] = Definition.model_validate({**GATHER, "name": "outer"})

    with fib.profile_model(trace_set=trace_set) as profiled:
        CHAIN.call("outer", call(), {}, run)
        CHAIN.call("unknown", call(), {}, run)
        run(*call())

    assert [(name, count) for name, _, count in counts(profiled.profile)] == [
        ("outer", 1),
        ("gather_d4", 2),
    ]


def test_a_call_that_raises_is_counted_and_counting_goes_on(trace_set: TraceSet) -> None:
    def broken(*_: object) -> None:
        raise ArithmeticError

    with fib.profile_model(trace_set=trace_set) as profiled:
        with pytest.raises(ArithmeticError):
            CHAIN.call("gather_d4", call(), {}, broken)
        run(*call())

    assert [count for *_, count in counts(profiled.profile)] == [2]


def test_profiles_may_be_taken_inside_of_one_another(trace_set: TraceSet) -> None:
    with fib.profile_model("outer", trace_set=trace_set) as outer:
        run(*call())
        with fib.profile_model("inner", trace_set=trace_set) as inner:
            run(*call())

    assert [count for *_, count in counts(outer.profile)] == [2]
    assert [count for *_, count in counts(inner.profile)] == [1]


def test_tracing_and_profiling_go_together(trace_set: TraceSet) -> None:
    with fib.enable_tracing(trace_set.root) as runtime, fib.profile_model(trace_set=trace_set) as p:
        run(*call())

    assert runtime.written.workloads["gather_d4"] == 1
    assert [count for *_, count in counts(p.profile)] == [1]


def test_threads_lose_no_count(trace_set: TraceSet) -> None:
    with fib.profile_model(trace_set=trace_set) as profiled:
        threads = [
            threading.Thread(target=lambda: [run(*call()) for _ in range(500)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [count for *_, count in counts(profiled.profile)] == [2000]


def test_a_dataset_is_named_once() -> None:
    with pytest.raises(ValueError, match="dataset_path or trace_set, not both"):
        fib.profile_model(dataset_path=".", trace_set=TraceSet())


def test_a_profile_needs_a_name(trace_set: TraceSet) -> None:
    with pytest.raises(ValueError, match="needs the model's name"):
        fib.profile_model("", trace_set=trace_set)


def test_a_librarys_call_is_known_by_any_of_its_readings(trace_set: TraceSet) -> None:
    wrong, right = (torch.ones(3, 5), *call()[1:]), call()
    op_types = frozenset({"gather"})

    with fib.profile_model(trace_set=trace_set) as profiled:
        readings = [Call(wrong, op_types, ("gather_d5",)), Call(right, op_types)]
        answer = CHAIN.send(readings, lambda: "the library's")
        CHAIN.send(readings[:1], lambda: None)
        CHAIN.send([Call((), frozenset({"b", "a"}))], lambda: None)

    assert answer == "the library's"
    assert [count for *_, count in counts(profiled.profile)] == [1]
    assert profiled.unknown == {
        "gather_d5: it does not fit gather_d4: d of x is 5, not 4": 1,
        "a/b: no definition is called so": 1,
    }
