"""Filters and dump policies: what is kept, what is written down, and the names they go by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from flashinfer_bench.tracing import (
    FilterPolicy,
    InputDumpPolicy,
    PolicyRegistry,
    TracingConfig,
    TracingConfigRegistry,
    WorkloadEntry,
    get_attention_only_configs,
    get_default_configs,
    get_full_configs,
)

A, B = {"batch": 1}, {"batch": 2}


def kept(policy: FilterPolicy, *sizes: dict[str, int]) -> list[int]:
    """Submit entries, and give the orders of those that are drained."""
    for order, axes in enumerate(sizes):
        policy.submit(WorkloadEntry("d", axes, order=order))
    return [entry.order for entry in policy.drain()]


def filter_policy(name: str, **arguments: Any) -> FilterPolicy:
    config = TracingConfig(filter_policy=name, filter_policy_kwargs=arguments)
    return config.create_filter_policy()


@pytest.fixture
def registry() -> Iterator[type[PolicyRegistry]]:
    """Undo what a test registers."""
    before = dict(PolicyRegistry._filters), dict(PolicyRegistry._dumps)
    yield PolicyRegistry
    for table, old in zip((PolicyRegistry._filters, PolicyRegistry._dumps), before, strict=True):
        table.clear()
        table.update(old)


@pytest.mark.parametrize(
    ("name", "arguments", "orders"),
    [
        ("keep_all", {}, [0, 1, 2, 3]),
        ("keep_none", {}, []),
        ("keep_first", {}, [0]),
        ("keep_first_k", {"k": 3}, [0, 1, 2]),
        ("keep_first_k_by_axes", {}, [0, 3]),
        ("keep_first_k_by_axes", {"k": 2}, [0, 1, 3]),
    ],
)
def test_each_filter_keeps_what_its_name_says(
    name: str, arguments: dict[str, int], orders: list[int]
) -> None:
    assert kept(filter_policy(name, **arguments), A, A, A, B) == orders


def test_counts_by_axes_outlive_a_drain() -> None:
    policy = filter_policy("keep_first_k_by_axes", k=2)
    kept(policy, A, A, A, B)

    assert kept(policy, A, B, B) == [1]


def test_keep_first_k_accepts_k_more_after_each_drain() -> None:
    policy = filter_policy("keep_first_k", k=2)

    assert kept(policy, A, A, A) == [0, 1]
    assert kept(policy, A, A, A) == [0, 1]


@pytest.mark.parametrize("name", ["keep_first", "keep_first_k_by_axes", "attention"])
def test_a_reset_forgets_counts_and_entries(name: str) -> None:
    policy = filter_policy(name)
    policy.submit(WorkloadEntry("d", A))

    policy.reset()

    assert kept(policy, A) == [0]


def test_a_drain_hands_over_once() -> None:
    policy = filter_policy("keep_all")
    kept(policy, A)

    assert policy.drain() == []


def test_attention_tells_calls_apart_by_average_lengths() -> None:
    decode = {"num_pages": 100, "len_indptr": 5, "num_kv_indices": 400, "total_q": 4}
    as_long = {"num_pages": 200, "len_indptr": 9, "num_kv_indices": 803, "total_q": 8}
    longer = {"num_pages": 100, "len_indptr": 5, "num_kv_indices": 800, "total_q": 4}

    policy = filter_policy("attention")

    assert policy.key(decode) == frozenset({"avg_kv_len": 100, "avg_q_len": 1}.items())
    assert kept(policy, decode, as_long, longer) == [0, 2]


def test_attention_without_total_q_counts_one_query_a_sequence() -> None:
    policy = filter_policy("attention")

    key = policy.key({"num_pages": 100, "len_indptr": 5, "num_kv_indices": 400})

    assert dict(key) == {"avg_kv_len": 100, "avg_q_len": 1}


def test_attention_keeps_ragged_prefill_which_has_no_pages() -> None:
    ragged = {"total_q": 64, "total_kv": 512, "len_indptr": 3}

    policy = filter_policy("attention")

    assert dict(policy.key(ragged)) == {"avg_kv_len": 256, "avg_q_len": 32}
    assert kept(policy, ragged, ragged) == [0]


@pytest.mark.parametrize("axes", [{"batch": 3}, {"len_indptr": 1, "num_kv_indices": 0}])
def test_attention_loses_nothing_it_cannot_average(axes: dict[str, int]) -> None:
    assert kept(filter_policy("attention"), axes, axes) == [0]


@pytest.mark.parametrize("k", [0, -1, 1.5, True, None])
def test_k_is_a_whole_number_of_at_least_one(k: Any) -> None:
    with pytest.raises(ValueError, match=r"k is .*; a filter keeps a whole number of calls"):
        filter_policy("keep_first_k", k=k)


def test_dump_policies_choose_tensors_by_kind() -> None:
    inputs = {
        "x": torch.zeros(2),
        "indices": torch.zeros(2, dtype=torch.int32),
        "mask": torch.zeros(2, dtype=torch.bool),
        "scale": 0.5,
        "count": 3,
    }

    def chosen(policy: str | list[str]) -> list[str]:
        config = TracingConfig(input_dump_policy=policy)
        return list(config.get_inputs_to_dump(list(inputs), list(inputs.values())))

    assert chosen("dump_all") == ["x", "indices", "mask"]
    assert chosen("dump_none") == []
    assert chosen("dump_int") == ["indices", "mask"]
    assert chosen(["mask", "x"]) == ["mask", "x"]


def test_a_list_that_names_no_input_is_an_error_with_a_suggestion() -> None:
    config = TracingConfig(input_dump_policy=["indicse"])

    with pytest.raises(KeyError, match="no input to dump named 'indicse'; did you mean 'indices'"):
        config.get_inputs_to_dump(["indices"], [torch.zeros(1)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"filter_policy": "keep_frist"}, "no filter policy named 'keep_frist'; did you mean"),
        ({"input_dump_policy": "dump_int32"}, "no input dump policy named 'dump_int32'"),
        ({"filter_policy_kwargs": {"k": 2}}, "policy 'keep_all' takes .*not {'k': 2}"),
        ({"input_dump_policy": [1]}, "a policy's name, or names of inputs, not .1."),
        ({"input_dump_policy": object()}, "a policy's name, or names of inputs, not <object"),
    ],
)
def test_settings_that_no_policy_has_are_refused_when_they_are_made(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        TracingConfig(**settings)


def test_by_default_every_call_is_kept_and_nothing_is_dumped() -> None:
    config = TracingConfig()

    assert (config.input_dump_policy, config.filter_policy) == ("dump_none", "keep_all")
    assert (config.input_dump_policy_kwargs, config.filter_policy_kwargs) == ({}, {})


def test_each_policy_made_has_counts_of_its_own() -> None:
    config = TracingConfig(filter_policy="keep_first")
    one, other = config.create_filter_policy(), config.create_filter_policy()

    assert kept(one, A) == kept(other, A) == [0]


def test_a_policy_of_ones_own_is_registered_by_call_or_decorator(
    registry: type[PolicyRegistry],
) -> None:
    class Never(FilterPolicy):
        def admits(self, axes: Any) -> bool:
            return False

    registry.register_filter_policy("never", Never)

    @registry.register_input_dump_policy("first")
    class First(InputDumpPolicy):
        def select(self, inputs: Any) -> list[str]:
            return list(inputs)[:1]

    assert kept(filter_policy("never"), A) == []
    assert TracingConfig("first").get_inputs_to_dump(["a", "b"], [1, 2]) == {"a": 1}
    assert "never" in registry.list_filter_policies()
    assert registry.get_input_dump_policy("first") is First


def test_a_name_that_is_taken_needs_override(registry: type[PolicyRegistry]) -> None:
    class Other(FilterPolicy):
        pass

    with pytest.raises(ValueError, match="'keep_all' exists already; override=True"):
        registry.register_filter_policy("keep_all", Other)

    assert registry.register_filter_policy("keep_all", Other, override=True) is Other
    assert registry.get_filter_policy("keep_all") is Other


def test_what_is_no_policy_cannot_be_registered(registry: type[PolicyRegistry]) -> None:
    with pytest.raises(ValueError, match=r"int has no submit\(\)"):
        registry.register_filter_policy("wrong", int)


def test_policies_may_be_of_any_class_and_unknown_ones_are_none(
    registry: type[PolicyRegistry],
) -> None:
    class Dump:
        def dump(self, inputs: Any) -> list[str]:
            return list(inputs)[:1]

    class Last:
        def __init__(self) -> None:
            self.entries: list[Any] = []

        def submit(self, entry: Any) -> None:
            self.entries = [entry]

        def drain(self) -> list[Any]:
            return self.entries

    registry.register_input_dump_policy("theirs", Dump)
    registry.register_filter_policy("last", Last)

    assert TracingConfig("theirs").get_inputs_to_dump(["a", "b"], [1, 2]) == {"a": 1}
    assert TracingConfig(filter_policy="last").create_filter_policy().drain() == []
    assert registry.get_filter_policy("unknown") is None
    assert registry.get_input_dump_policy("unknown") is None


def test_a_registry_gives_a_definitions_own_settings_then_its_op_types_then_the_default() -> None:
    own, of_type, default = (TracingConfig(filter_policy_kwargs={}) for _ in range(3))
    registry = TracingConfigRegistry(default, {"a": own}, {"gemm": of_type})

    assert registry.get("a", "gemm") is own
    assert registry.get("b", "gemm") is of_type
    assert registry.get("b", "norm") is registry.get("b") is default
    assert TracingConfigRegistry(per_definition={"a": own}).get("b") is None


def test_registering_is_chained_and_refuses_conflicts() -> None:
    config, other = TracingConfig(), TracingConfig("dump_all")
    registry = TracingConfigRegistry().register("a", config).register_many({"b": config})

    with pytest.raises(ValueError, match="'a' has settings already"):
        registry.register("a", other)
    with pytest.raises(ValueError, match=r"\['b'\] have settings already"):
        registry.register_many({"b": other, "c": other})

    assert registry.per_definition == {"a": config, "b": config}
    assert registry.register("a", other, override=True).get("a") is other


def test_presets_fit_what_language_models_run() -> None:
    full, attention, plain = (
        get_full_configs(),
        get_attention_only_configs(),
        get_default_configs(),
    )

    decode = full.get("gqa_paged_decode_h32_kv8_d128_ps1", "gqa_paged")
    gemm = full.get("gemm_n4096_k4096", "gemm")

    assert decode is not None
    assert gemm is not None
    assert (decode.filter_policy, decode.input_dump_policy) == ("attention", "dump_int")
    assert (gemm.filter_policy, gemm.input_dump_policy) == ("keep_first_k_by_axes", "dump_none")
    assert full.get("anything") == plain.get("anything") == TracingConfig()
    assert attention.get("gemm_n4096_k4096", "gemm") is None
    assert attention.get("mla", "mla_paged") == decode
