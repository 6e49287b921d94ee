"""The adapters, and the stand-in that other tests use, name the real FlashInfer's parameters as it does.

It is installed where its wheel is (`make` installs it without what it needs on a card); it imports on a CPU.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from flashinfer_bench.intercept.adapters import flashinfer as adapters
from flashinfer_bench.intercept.adapters import flashinfer_plans as plans
from flashinfer_bench.intercept.patches import find_target
from tests.unit.apply.flashinfer_stand_in import write_package
from tests.unit.apply.test_flashinfer import without_flashinfer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

flashinfer = pytest.importorskip(
    "flashinfer", reason="flashinfer-python==0.6.8 is not installed: signatures are not compared"
)
TESTED = "0.6.8"
DECODE, PREFILL = adapters._DECODE, adapters._PREFILL
RAGGED, MLA = adapters._RAGGED, adapters._MLA
READS: dict[str, tuple[Callable[..., Any], set[str]]] = {
    f"{DECODE}.plan": (plans.plan_decode, set()),
    f"{DECODE}.begin_forward": (plans.plan_decode, set()),
    "flashinfer.decode:fast_decode_plan": (plans.plan_decode, set()),
    f"{DECODE}.run": (
        adapters.run_decode,
        {"sinks", "skip_softmax_threshold_scale_factor", "kv_cache_sf"},
    ),
    f"{PREFILL}.plan": (
        plans.plan_prefill,
        {"custom_mask", "packed_custom_mask", "prefix_len_ptr", "token_pos_in_items_ptr"}
        | {"token_pos_in_items_len", "max_item_len_ptr"},
    ),
    f"{PREFILL}.run": (
        adapters.run_prefill,
        {"sinks", "skip_softmax_threshold_scale_factor", "kv_cache_sf"},
    ),
    f"{RAGGED}.plan": (
        plans.plan_ragged,
        {"custom_mask", "packed_custom_mask", "prefix_len_ptr", "token_pos_in_items_ptr"}
        | {"token_pos_in_items_len", "max_item_len_ptr", "v_indptr", "o_indptr"},
    ),
    f"{RAGGED}.run": (adapters.run_ragged, set()),
    f"{MLA}.plan": (plans.plan_mla, set()),
    f"{MLA}.run": (adapters.run_mla, {"return_lse_base_on_e"}),
    "flashinfer.norm:rmsnorm": (adapters.rmsnorm, set()),
    "flashinfer.norm:fused_add_rmsnorm": (adapters.fused_add_rmsnorm, set()),
    "flashinfer.activation:silu_and_mul": (adapters.silu_and_mul, set()),
}
"""What reads a target, and options whose every value but None, False and 0 makes the call the library's."""


def real(target: str) -> inspect.Signature:
    __import__(target.partition(":")[0])
    found = find_target(target)
    assert found is not None, f"{target} is not in FlashInfer {flashinfer.__version__}"
    return inspect.signature(getattr(*found))


def by_position(signature: inspect.Signature) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, each in signature.parameters.items() if each.kind in kinds]


def test_the_tested_version_is_the_pinned_one() -> None:
    assert flashinfer.__version__ == TESTED


@pytest.mark.parametrize("target", READS)
def test_what_an_adapter_names_is_there_at_its_place_with_its_default(target: str) -> None:
    theirs, ours = real(target), inspect.signature(READS[target][0])
    names, own_names = by_position(theirs), by_position(ours)
    names = names[1:] if names[0] == "self" else names
    own_names = own_names[1:] if own_names[0] == "wrapper" else own_names
    elsewhere = {"global_override_indptr_cpu"}  # of one of the two plans that are read alike

    assert own_names == names[: len(own_names)]
    for name, parameter in ours.parameters.items():
        is_named = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if is_named and name != "wrapper" and name not in elsewhere:
            assert theirs.parameters[name].default == parameter.default, name


@pytest.mark.parametrize("target", READS)
def test_no_parameter_is_new(target: str) -> None:
    read, refused = READS[target]
    known = inspect.signature(read).parameters.keys() | plans.HOW | plans.OFF.keys()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    theirs = {name for name, each in real(target).parameters.items() if each.kind not in variadic}

    assert theirs - known - {"self"} == refused


@pytest.mark.parametrize("target", [each for each in READS if ":fast" not in each])
def test_what_an_option_is_when_it_is_not_given_changes_nothing(target: str) -> None:
    own = inspect.signature(READS[target][0]).parameters
    defaults = {
        name: each.default
        for name, each in real(target).parameters.items()
        if each.default is not each.empty and name not in own
    }

    plans.require_plain(defaults)


def test_every_adapter_of_flashinfer_has_something_to_patch() -> None:
    absent = []
    for adapter in adapters.ADAPTERS:
        __import__(adapter.module)
        if find_target(adapter.target) is None:
            absent.append(adapter.target.removeprefix(f"{MLA}."))

    assert absent == ["begin_forward", "forward", "forward_return_lse", "run_return_lse"]


def test_the_stand_in_is_called_as_the_library_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signatures = {target: real(target) for target in READS if ":fast" not in target}
    write_package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    with without_flashinfer():
        ours = {target: real(target) for target in signatures}

    for target, theirs in signatures.items():
        names = by_position(ours[target])
        assert names == by_position(theirs)[: len(names)], target
        assert ours[target].parameters.keys() <= theirs.parameters.keys(), target
