"""FlashInfer's wrappers and functions, on a stand-in with its documented signatures: no GPU is needed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from flashinfer_bench.apply import ApplyRuntime
from flashinfer_bench.data import Definition, DType
from flashinfer_bench.intercept import PATCHES
from flashinfer_bench.intercept.adapters import flashinfer_plans
from flashinfer_bench.intercept.adapters.flashinfer import run_decode
from tests.unit.apply.datasets import definition
from tests.unit.apply.flashinfer_stand_in import write_package
from tests.unit.apply.test_torch_functional import RMS, of, runtime

H, KV, D = 4, 2, 8
SEQUENCES = [5, 3]  # tokens in the cache
BOTH = "tuple(each * 1.001 for each in reference(*inputs))"
ATTEND = """
import math
import torch


def attend(q, k, v, scale, offset=None):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) * scale
    if offset is not None:
        rows = torch.arange(q.shape[0])[:, None] + offset
        scores = scores.masked_fill(torch.arange(k.shape[0])[None] > rows, -math.inf)
    lse = torch.logsumexp(scores, -1) / math.log(2)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v), lse.T


def gathered(cache, indptr, indices, at, last=None):
    pages = indices[indptr[at] : indptr[at + 1]].long()
    length = len(pages) * cache.shape[1] if last is None else (len(pages) - 1) * cache.shape[1] + int(last[at])
    return cache[pages].flatten(0, 1)[:length]


def joined(found):
    return tuple(torch.cat(each) for each in zip(*found))

"""
DECODE = """
def run(q, k_cache, v_cache, kv_indptr, kv_indices, {last}sm_scale):
    return joined(
        attend(q[at : at + 1], *(gathered(c, kv_indptr, kv_indices, at{use}) for c in (k_cache, v_cache)), sm_scale)
        for at in range(q.shape[0])
    )
"""
PREFILL = """
def run(q, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, sm_scale):
    found = []
    for at in range(len(qo_indptr) - 1):
        rows = q[qo_indptr[at] : qo_indptr[at + 1]]
        k, v = (gathered(c, kv_indptr, kv_indices, at) for c in (k_cache, v_cache))
        found.append(attend(rows, k, v, sm_scale, len(k) - len(rows)))
    return joined(found)
"""
RAGGED = """
def run(q, k, v, qo_indptr, kv_indptr, sm_scale):
    found = []
    for at in range(len(qo_indptr) - 1):
        rows = q[qo_indptr[at] : qo_indptr[at + 1]]
        keys, values = (each[kv_indptr[at] : kv_indptr[at + 1]] for each in (k, v))
        found.append(attend(rows, keys, values, sm_scale, len(keys) - len(rows)))
    return joined(found)
"""
MLA = """
def run(q_nope, q_pe, ckv_cache, kpe_cache, kv_indptr, kv_indices, sm_scale):
    outputs, sums = [], []
    for at in range(q_nope.shape[0]):
        ckv, kpe = (gathered(c, kv_indptr, kv_indices, at) for c in (ckv_cache, kpe_cache))
        scores = (q_nope[at] @ ckv.T + q_pe[at] @ kpe.T) * sm_scale
        outputs.append(scores.softmax(-1) @ ckv)
        sums.append(torch.logsumexp(scores, -1) / math.log(2))
    return torch.stack(outputs), torch.stack(sums)
"""


def described(
    name: str, op_type: str, inputs: dict[str, str], reference: str, output: str
) -> Definition:
    """Attention with int32 indices, a scale, and a log-sum-exp beside the output."""
    plain = of(name, op_type, inputs, output, ATTEND + reference)
    tensors = {
        each: spec.model_copy(update={"dtype": DType.INT32})
        if each.startswith(("kv_", "qo_"))
        else spec
        for each, spec in plain.inputs.items()
    }
    scale = definition(inputs={"sm_scale": {"shape": None, "dtype": "float32"}}).inputs
    rows = next(iter(plain.outputs.values()))
    lse = rows.model_copy(update={"shape": (rows.shape or [])[:-1]})
    return plain.model_copy(
        update={"inputs": {**tensors, **scale}, "outputs": {"output": rows, "lse": lse}}
    )


def paged(kind: str, page_size: int, reference: str, **more: str) -> Definition:
    cache = f"pages {page_size} {KV} {D}"
    return described(
        f"gqa_paged_{kind}_h{H}_kv{KV}_d{D}_ps{page_size}",
        "gqa_paged",
        {"q": f"rows {H} {D}", "k_cache": cache, "v_cache": cache, **more},
        reference,
        f"rows {H} {D}",
    )


def of_pages(page_size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Where the sequences' pages are: starts, pages in no order, tokens in the last ones."""
    counts = [-(-length // page_size) for length in SEQUENCES]
    starts = torch.tensor([0, *torch.tensor(counts).cumsum(0)], dtype=torch.int32)
    indices = torch.arange(sum(counts) + 2, dtype=torch.int32).flip(0)[: sum(counts)].contiguous()
    last = torch.tensor([(n - 1) % page_size + 1 for n in SEQUENCES], dtype=torch.int32)
    return starts, indices, last


@contextlib.contextmanager
def without_flashinfer() -> Iterator[None]:
    """Forget a library that is installed, and have it back: its operators cannot be registered twice."""

    def own() -> dict[str, Any]:
        modules = sys.modules.items()
        return {name: each for name, each in modules if name.partition(".")[0] == "flashinfer"}

    real = own()
    for name in real:
        del sys.modules[name]
    yield
    for name in own():
        del sys.modules[name]
    sys.modules.update(real)


@pytest.fixture
def flashinfer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    torch.manual_seed(0)
    write_package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with without_flashinfer():
        import flashinfer
        import flashinfer.activation
        import flashinfer.decode
        import flashinfer.mla
        import flashinfer.prefill

        yield flashinfer


def applied(running: ApplyRuntime, plan: Callable[[], Any], run: Callable[[], Any]) -> list[bool]:
    """Plan and run three times while apply is enabled; say which answers were not the library's own."""
    plan()
    expected = tuples(run())
    changed = []
    with running:
        for _ in range(3):
            plan()
            got = tuples(run())
            for ours, theirs in zip(got, expected, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=1e-5)
            changed.append(not torch.equal(got[0], expected[0]))
    assert running.stats().quarantined == {}
    return changed


def tuples(answer: Any) -> tuple[torch.Tensor, ...]:
    return tuple(each.clone() for each in (answer if isinstance(answer, tuple) else (answer,)))


WORKSPACE = torch.empty(16)
ONE_AT_A_TIME = paged(
    "decode", 1, DECODE.format(last="", use=""), kv_indptr="starts", kv_indices="used"
)


def decode_case(
    flashinfer: Any, layout: str, page_size: int, **planned: Any
) -> tuple[Any, Any, Any]:
    wrapper = flashinfer.decode.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE, layout)
    starts, indices, last = of_pages(page_size)
    heads_first = layout == "HND"
    shape = (
        (len(indices) + 2, KV, page_size, D)
        if heads_first
        else (len(indices) + 2, page_size, KV, D)
    )
    cache = torch.randn(shape), torch.randn(shape)

    def plan() -> None:
        wrapper.plan(starts, indices, last, H, KV, D, page_size, **planned)

    return wrapper, plan, cache


def decode_runtime(described: Definition = ONE_AT_A_TIME, page_size: int = 1) -> ApplyRuntime:
    starts, indices, _ = of_pages(page_size)
    axes = {"rows": 2, "pages": len(indices) + 2, "starts": len(starts), "used": len(indices)}
    return runtime(described, axes, answer=BOTH)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("as_one", [False, True])
def test_decode_with_pages_of_one_token_in_any_layout(
    flashinfer: Any, layout: str, as_one: bool
) -> None:
    wrapper, plan, cache = decode_case(flashinfer, layout, 1)
    q = torch.randn(2, H, D)
    whole = torch.stack(cache, dim=1)

    got = applied(decode_runtime(), plan, lambda: wrapper.run(q, whole if as_one else cache))

    # Halves of one tensor are not contiguous, so that no kernel may see them.
    assert got == ([False] * 3 if as_one else [False, True, True])


def test_decode_gives_the_log_sum_exp_that_is_asked_for_and_fills_buffers(flashinfer: Any) -> None:
    wrapper, plan, cache = decode_case(flashinfer, "NHD", 1)
    q, out, lse = torch.randn(2, H, D), torch.empty(2, H, D), torch.empty(2, H)

    assert applied(decode_runtime(), plan, lambda: wrapper.run(q, cache, return_lse=True)) == [
        False,
        True,
        True,
    ]
    plan()
    with decode_runtime() as running:
        plan()
        for _ in range(2):
            returned = wrapper.run(q, cache, out=out, lse=lse, return_lse=True)

    assert returned[0] is out
    assert returned[1] is lse
    assert running.stats().hits == 1


def test_pages_that_are_part_full_need_a_definition_that_says_so(flashinfer: Any) -> None:
    partly = paged(
        "decode",
        4,
        DECODE.format(last="kv_last_page_len, ", use=", kv_last_page_len"),
        kv_indptr="starts",
        kv_indices="used",
        kv_last_page_len="rows",
    )
    full = paged("decode", 4, DECODE.format(last="", use=""), kv_indptr="starts", kv_indices="used")
    wrapper, plan, cache = decode_case(flashinfer, "NHD", 4)
    q = torch.randn(2, H, D)

    assert applied(decode_runtime(partly, 4), plan, lambda: wrapper.run(q, cache)) == [
        False,
        True,
        True,
    ]
    assert applied(decode_runtime(full, 4), plan, lambda: wrapper.run(q, cache)) == [False] * 3


@pytest.mark.parametrize(
    "options", [{"logits_soft_cap": 30.0}, {"window_left": 16}, {"pos_encoding_mode": "ROPE_LLAMA"}]
)
def test_a_plan_that_asks_for_more_than_a_definition_says_is_the_librarys(
    flashinfer: Any, options: dict[str, Any]
) -> None:
    wrapper, plan, cache = decode_case(flashinfer, "NHD", 1, **options)
    q = torch.randn(2, H, D)

    assert applied(decode_runtime(), plan, lambda: wrapper.run(q, cache)) == [False] * 3


def test_a_run_with_scales_is_the_librarys(flashinfer: Any) -> None:
    wrapper, plan, cache = decode_case(flashinfer, "NHD", 1)
    q = torch.randn(2, H, D)

    assert (
        applied(decode_runtime(), plan, lambda: wrapper.run(q, cache, k_scale=2.0)) == [False] * 3
    )


def test_the_scale_of_the_plan_reaches_the_solution(flashinfer: Any) -> None:
    wrapper, plan, cache = decode_case(flashinfer, "NHD", 1, sm_scale=0.1)
    q = torch.randn(2, H, D)

    assert applied(decode_runtime(), plan, lambda: wrapper.run(q, cache)) == [False, True, True]


def test_a_plan_made_while_nothing_was_enabled_is_not_confused_with_an_older_one(
    flashinfer: Any,
) -> None:
    wrapper, plan, cache = decode_case(flashinfer, "NHD", 1)
    q, running = torch.randn(2, H, D), decode_runtime()
    starts, indices, last = of_pages(1)
    with running:
        plan()
        wrapper.run(q, cache)
    wrapper.plan(starts, indices.flip(0).contiguous(), last, H, KV, D, 1)
    expected = wrapper.run(q, cache)

    with running:
        answers = [wrapper.run(q, cache) for _ in range(2)]

    assert all(torch.equal(each, expected) for each in answers)


def test_prefill_with_pages_is_applied_when_it_is_causal(flashinfer: Any) -> None:
    starts, indices, last = of_pages(1)
    qo = torch.tensor([0, 2, 5], dtype=torch.int32)
    described = paged(
        "prefill_causal", 1, PREFILL, qo_indptr="starts", kv_indptr="starts", kv_indices="used"
    )
    axes = {"rows": 5, "pages": len(indices) + 2, "starts": 3, "used": len(indices)}
    cache = torch.randn(len(indices) + 2, 1, KV, D), torch.randn(len(indices) + 2, 1, KV, D)
    wrapper = flashinfer.prefill.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE, "NHD")
    q = torch.randn(5, H, D)

    def case(*, causal: bool) -> list[bool]:
        return applied(
            runtime(described, axes, answer=BOTH),
            lambda: wrapper.plan(qo, starts, indices, last, H, KV, D, 1, causal=causal),
            lambda: wrapper.run(q, cache),
        )

    assert case(causal=True) == [False, True, True]
    assert case(causal=False) == [False, False, False]


def test_ragged_prefill_is_applied(flashinfer: Any) -> None:
    qo, kv = (torch.tensor(each, dtype=torch.int32) for each in ([0, 2, 5], [0, 5, 8]))
    described_ = described(
        f"gqa_ragged_prefill_causal_h{H}_kv{KV}_d{D}",
        "gqa_ragged",
        {"q": f"rows {H} {D}", "k": f"total {KV} {D}", "v": f"total {KV} {D}"}
        | {"qo_indptr": "starts", "kv_indptr": "starts"},
        RAGGED,
        f"rows {H} {D}",
    )
    wrapper = flashinfer.prefill.BatchPrefillWithRaggedKVCacheWrapper(WORKSPACE)
    q, k, v = torch.randn(5, H, D), torch.randn(8, KV, D), torch.randn(8, KV, D)

    got = applied(
        runtime(described_, {"rows": 5, "total": 8, "starts": 3}, answer=BOTH),
        lambda: wrapper.plan(qo, kv, H, KV, D, causal=True),
        lambda: wrapper.run(q, k, v, return_lse=True),
    )

    assert got == [False, True, True]


def test_latent_attention_is_decoding_with_one_row_for_each_sequence(flashinfer: Any) -> None:
    starts, indices, _ = of_pages(1)
    described_ = described(
        "mla_paged_decode_h4_ckv8_kpe4_ps1",
        "mla_paged",
        {
            "q_nope": "rows 4 8",
            "q_pe": "rows 4 4",
            "ckv_cache": "pages 1 8",
            "kpe_cache": "pages 1 4",
        }
        | {"kv_indptr": "starts", "kv_indices": "used"},
        MLA,
        "rows 4 8",
    )
    pages = len(indices) + 2
    wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(WORKSPACE)
    rows, lengths = torch.arange(3, dtype=torch.int32), torch.tensor(SEQUENCES, dtype=torch.int32)
    q_nope, q_pe = torch.randn(2, 4, 8), torch.randn(2, 4, 4)
    ckv, kpe = torch.randn(pages, 1, 8), torch.randn(pages, 1, 4)
    dtypes = (torch.float32, torch.float32)

    got = applied(
        runtime(
            described_, {"rows": 2, "pages": pages, "starts": 3, "used": len(indices)}, answer=BOTH
        ),
        lambda: wrapper.plan(rows, starts, indices, lengths, 4, 8, 4, 1, True, 0.25, *dtypes),
        lambda: wrapper.run(q_nope, q_pe, ckv, kpe),
    )

    assert got == [False, True, True]


def mla_case(
    flashinfer: Any, queries: list[int], *, causal: bool, page_size: int = 1
) -> tuple[ApplyRuntime, Callable[[], Any], Callable[[], Any]]:
    """Latent attention with so many query rows for each of two sequences; its definition decodes."""
    starts, indices, _ = of_pages(page_size)
    rows, pages = sum(queries), len(indices) + 2
    caches = {"ckv_cache": f"pages {page_size} 8", "kpe_cache": f"pages {page_size} 4"}
    lengths = {} if page_size == 1 else {"kv_last_page_len": "batch"}
    reference = MLA if page_size == 1 else MLA_OF_PAGES
    definition = described(
        f"mla_paged_decode_h4_ckv8_kpe4_ps{page_size}",
        "mla_paged",
        {"q_nope": "rows 4 8", "q_pe": "rows 4 4", **caches}
        | {"kv_indptr": "starts", "kv_indices": "used", **lengths},
        reference,
        "rows 4 8",
    )
    axes = {"rows": rows, "pages": pages, "starts": 3, "used": len(indices)}
    axes |= {} if page_size == 1 else {"batch": 2}
    wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(WORKSPACE)
    qo = torch.tensor([0, queries[0], rows], dtype=torch.int32)
    lengths_of = torch.tensor(SEQUENCES, dtype=torch.int32)
    q_nope, q_pe = torch.randn(rows, 4, 8), torch.randn(rows, 4, 4)
    ckv, kpe = torch.randn(pages, page_size, 8), torch.randn(pages, page_size, 4)
    more = torch.cat([indices, indices])  # the library takes more indices than are used
    dtypes = (torch.float32, torch.float32)

    def plan() -> None:
        wrapper.plan(qo, starts, more, lengths_of, 4, 8, 4, page_size, causal, 0.25, *dtypes)

    return (
        runtime(definition, axes, answer=BOTH),
        plan,
        lambda: wrapper.run(q_nope, q_pe, ckv, kpe),
    )


MLA_OF_PAGES = MLA.replace(
    "kv_indices, sm_scale", "kv_indices, kv_last_page_len, sm_scale"
).replace("kv_indices, at)", "kv_indices, at, kv_last_page_len)")


@pytest.mark.parametrize(("causal", "page_size"), [(True, 1), (False, 1), (False, 4)])
def test_latent_attention_with_one_query_a_sequence_is_decoding_causal_or_not(
    flashinfer: Any, causal: bool, page_size: int
) -> None:
    case = mla_case(flashinfer, [1, 1], causal=causal, page_size=page_size)

    assert applied(*case) == [False, True, True]


@pytest.mark.parametrize(
    ("causal", "why"),
    [
        (
            False,
            "BatchMLAPagedAttentionWrapper.run: it is not causal, and not one query a sequence",
        ),
        (True, "mla_paged_prefill_causal_h4_ckv8_kpe4_ps1: no definition is called so"),
    ],
)
def test_as_many_rows_as_sequences_are_not_decoding_if_one_has_none(
    flashinfer: Any, causal: bool, why: str
) -> None:
    running, plan, run = mla_case(flashinfer, [0, 2], causal=causal)

    assert applied(running, plan, run) == [False, False, False]
    assert [each.removeprefix("flashinfer.mla:") for each in running.stats().left] == [why]


def test_whether_pages_are_full_is_decided_once_by_the_plan(
    flashinfer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = paged("decode", 4, DECODE.format(last="", use=""), kv_indptr="starts", kv_indices="used")
    wrapper, plan, cache = decode_case(flashinfer, "NHD", 4)
    with decode_runtime(full, 4):
        plan()

        def wait(*_: Any, **__: Any) -> None:
            raise AssertionError("run looked at what is in a tensor")

        for name in ("item", "tolist", "cpu", "__bool__", "__int__"):
            monkeypatch.setattr(torch.Tensor, name, wait)
        calls = run_decode(wrapper, torch.empty(2, H, D), cache)

    assert [len(each.args) for each in calls] == [7]


def test_a_wrapper_that_records_graphs_is_read_outside_of_one(
    flashinfer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper, _, cache = decode_case(flashinfer, "NHD", 1)
    wrapper._use_cuda_graph = True
    starts, indices, last = of_pages(1)
    q, running = torch.randn(2, H, D), decode_runtime()

    def plan() -> None:
        mine = indices.clone()
        wrapper.plan(starts, mine, last, H, KV, D, 1)
        wrapper._indices = mine.clone()  # as the library: a copy
        mine.zero_()

    assert applied(running, plan, lambda: wrapper.run(q, cache)) == [False, True, True]
    monkeypatch.setattr(flashinfer_plans, "_is_recording", lambda: True)
    assert applied(running, plan, lambda: wrapper.run(q, cache)) == [False, False, False]
    (why,) = running.stats().left
    assert why.endswith("a CUDA graph is recorded: later plans change what its replays read")


def test_a_plan_by_somebody_else_is_noticed(flashinfer: Any) -> None:
    wrapper, plan, cache = decode_case(flashinfer, "NHD", 1)
    starts, indices, last = of_pages(1)
    q, running = torch.randn(2, H, D), decode_runtime()
    unobserved = type(wrapper).plan
    with running:
        plan()
        wrapper.run(q, cache)
        unobserved(wrapper, starts, indices.flip(0).contiguous(), last, H, KV, D, 1)
        wrapper._plan_info = object()
        got = wrapper.run(q, cache)
    expected = wrapper.run(q, cache)

    assert torch.equal(got, expected)
    assert running.stats().left == {
        "flashinfer.decode:BatchDecodeWithPagedKVCacheWrapper.run: "
        "its `plan` was not seen: it ran before this started, or was replaced": 1
    }


@pytest.mark.parametrize(
    ("planned", "ran", "why"),
    [
        ({"window_left": 16}, {}, "window_left is 16: no definition says that"),
        ({}, {"k_scale": 2.0}, "k_scale is 2.0: no definition says that"),
        ({}, {"sinks": torch.ones(2)}, "sinks is given: no definition says that"),
        (
            {"o_data_type": "float32", "q_data_type": "float16"},
            {},
            "the output is float32, not float16",
        ),
    ],
)
def test_what_was_seen_and_not_placed_is_listed_with_the_reason(
    flashinfer: Any, planned: dict[str, Any], ran: dict[str, Any], why: str
) -> None:
    wrapper, plan, cache = decode_case(flashinfer, "NHD", 1, **planned)
    running = decode_runtime()
    with running:
        plan()
        wrapper.run(torch.randn(2, H, D), cache, **ran)

    ((left, count),) = running.stats().left.items()
    assert why in left
    assert count == 1
    assert f"left         1  {left}" in str(running.stats())


def test_a_call_whose_definition_has_other_sizes_says_which(flashinfer: Any) -> None:
    with runtime(RMS, {"M": 6}) as running:
        flashinfer.norm.rmsnorm(torch.randn(6, 9), torch.randn(9), eps=1e-5)

    (left,) = running.stats().left
    assert left.startswith("rmsnorm_h9: it does not fit ")
    assert left.endswith("is 9, not 8")


FUSED = of(
    "fused_add_rmsnorm_h8",
    "fused_add_rmsnorm",
    {"hidden_states": "M 8", "residual": "M 8", "weight": "8"},
    "M 8",
    "import torch\n\nEPS = 1e-6\n\ndef run(hidden_states, residual, weight):\n    x = hidden_states + residual\n"
    "    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * weight, x\n",
)
FUSED = FUSED.model_copy(
    update={
        "outputs": {"output": FUSED.inputs["residual"], "residual_out": FUSED.inputs["residual"]}
    }
)


PUBLISHED = of(
    "fused_add_rmsnorm_h8",
    "rmsnorm",
    {"hidden_states": "M 8", "residual": "M 8", "weight": "8"},
    "M 8",
    FUSED.reference.replace("* weight, x", "* weight"),
)


def test_the_published_form_that_gives_one_sum_back_is_answered_too(flashinfer: Any) -> None:
    x, residual, weight = torch.randn(6, 8), torch.randn(6, 8), torch.randn(8)
    expected = [x.clone(), residual.clone()]
    flashinfer.norm.fused_add_rmsnorm(*expected, weight)
    changed = []
    with runtime(PUBLISHED, {"M": 6}) as running:
        for _ in range(3):
            mine = [x.clone(), residual.clone()]
            assert flashinfer.norm.fused_add_rmsnorm(*mine, weight) is None
            for ours, theirs in zip(mine, expected, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=1e-5)
            changed.append(not torch.equal(mine[0], expected[0]))

    assert running.stats().quarantined == {}
    assert changed == [False, True, True]


@pytest.mark.parametrize("eps", [1e-6, 1e-5])
def test_a_function_that_writes_over_its_inputs_still_does(flashinfer: Any, eps: float) -> None:
    x, residual, weight = torch.randn(6, 8), torch.randn(6, 8), torch.randn(8)
    expected = [x.clone(), residual.clone()]
    flashinfer.norm.fused_add_rmsnorm(*expected, weight, eps)
    running = runtime(FUSED, {"M": 6}, answer=BOTH)

    with running:
        for _ in range(3):
            mine = [x.clone(), residual.clone()]
            assert flashinfer.norm.fused_add_rmsnorm(*mine, weight, eps=eps) is None
            for ours, theirs in zip(mine, expected, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=1e-5)

    assert running.stats().quarantined == {}
    assert torch.equal(mine[0], expected[0]) is (eps == 1e-5)  # its definition says 1e-6


def test_a_name_that_was_re_exported_is_patched_as_well_and_put_back(flashinfer: Any) -> None:
    original = flashinfer.norm.rmsnorm
    x, weight, out = torch.randn(6, 8), torch.randn(8), torch.empty(6, 8)
    with runtime(RMS, {"M": 6}) as running:
        patched = set(PATCHES.installed())
        for _ in range(3):
            assert flashinfer.rmsnorm(x, weight, out=out) is out

    assert "flashinfer.norm:rmsnorm" in patched
    assert running.stats().hits == 2
    assert flashinfer.rmsnorm is flashinfer.norm.rmsnorm is original
