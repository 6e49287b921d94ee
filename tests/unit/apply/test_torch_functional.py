"""Calls of `torch.nn.functional`, and of modules that make them, are answered by solutions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
import transformers
from torch import nn

from flashinfer_bench.apply import ApplyConfig, ApplyRuntime
from flashinfer_bench.apply.runtime import RUNTIMES
from flashinfer_bench.data import Definition
from flashinfer_bench.intercept import PATCHES
from tests import published_definitions
from tests.unit.apply.datasets import dataset, definition, solution, trace

ORIGINALS = {
    name: getattr(F, name)
    for name in (
        "linear",
        "rms_norm",
        "layer_norm",
        "softmax",
        "silu",
        "scaled_dot_product_attention",
    )
}


def of(name: str, op_type: str, inputs: dict[str, str], output: str, reference: str) -> Definition:
    """A definition whose tensors are written like `M 8`: names are variable axes, numbers constant ones."""

    def spec(shape: str) -> dict[str, Any]:
        return {
            "shape": [f"n{each}" if each.isdigit() else each for each in shape.split()],
            "dtype": "float32",
        }

    def axis(word: str) -> dict[str, Any]:
        return {"type": "const", "value": int(word)} if word.isdigit() else {"type": "var"}

    words = sorted({each for shape in (*inputs.values(), output) for each in shape.split()})
    axes = {f"n{each}" if each.isdigit() else each: axis(each) for each in words}
    return definition(
        name,
        op_type=op_type,
        axes=axes,
        inputs={each: spec(shape) for each, shape in inputs.items()},
        outputs={"Y": spec(output)},
        reference=reference,
    )


def runtime(
    described: Definition,
    axes: dict[str, int],
    answer: str = "reference(*inputs) * 1.001",
    **config: Any,
) -> ApplyRuntime:
    """Apply a solution that gives the reference's answer, off by what is tolerated, so that it shows."""
    source = (
        f"{described.reference}\nreference = run\n\ndef answer(*inputs):\n    return {answer}\n"
    )
    only = solution("only", source, of=described.name, entry_point="main.py::answer")
    traces = [trace("only", axes, of=described.name)]
    return ApplyRuntime(dataset([only], traces, [described]), ApplyConfig(**config))


def is_applied(running: ApplyRuntime, call: Any) -> list[bool]:
    """Call three times: the first is the original's, for it is compared."""
    with torch.no_grad():
        expected = call()
        with running:
            answers = [call() for _ in range(3)]
        assert running.stats().quarantined == {}
        for answer in answers:
            assert answer.shape == expected.shape
            torch.testing.assert_close(answer, expected, rtol=2e-3, atol=1e-6)
        return [not torch.equal(answer, expected) for answer in answers]


X = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))
GEMM = of(
    "gemm_n4_k8", "gemm", {"A": "M 8", "B": "4 8"}, "M 4", "def run(A, B):\n    return A @ B.T\n"
)
RMS = of(
    "rmsnorm_h8",
    "rmsnorm",
    {"x": "M 8", "w": "8"},
    "M 8",
    "import torch\n\nEPS = 1e-6\n\ndef run(x, w):\n"
    "    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * w\n",
)


@pytest.mark.parametrize("shape", [(6, 8), (2, 3, 8)])
def test_linear_without_bias_is_a_gemm_of_its_rows(shape: tuple[int, ...]) -> None:
    layer = nn.Linear(8, 4, bias=False)

    applied = is_applied(runtime(GEMM, {"M": 6}), lambda: layer(X.reshape(shape)))

    assert applied == [False, True, True]


def test_a_dataset_that_holds_only_the_reference_itself_patches_nothing() -> None:
    itself = solution("itself", GEMM.reference, of=GEMM.name)
    traces = [trace("itself", {"M": 6}, of=GEMM.name)]
    original = torch.nn.functional.linear

    with ApplyRuntime(dataset([itself], traces, [GEMM])):
        assert torch.nn.functional.linear is original


def test_linear_with_bias_is_a_definition_with_three_inputs() -> None:
    layer = nn.Linear(8, 4)
    described = of(
        "linear_8x4",
        "linear",
        {"x": "B S 8", "w": "4 8", "b": "4"},
        "B S 4",
        "import torch\n\ndef run(x, w, b):\n    return torch.nn.functional.linear(x, w, b)\n",
    )

    assert is_applied(runtime(described, {"B": 2, "S": 3}), lambda: layer(X)) == [False, True, True]


def test_rms_norm_is_applied_only_with_the_epsilon_of_the_definition() -> None:
    same, other = nn.RMSNorm(8, eps=1e-6), nn.RMSNorm(8, eps=1e-5)

    assert is_applied(runtime(RMS, {"M": 6}), lambda: same(X)) == [False, True, True]
    assert is_applied(runtime(RMS, {"M": 6}), lambda: other(X)) == [False, False, False]


def test_layer_norm_takes_weight_and_bias() -> None:
    described = of(
        "any_name",
        "layer_norm",
        {"x": "M 8", "w": "8", "b": "8"},
        "M 8",
        "import torch\n\ndef run(x, w, b):\n"
        "    return torch.nn.functional.layer_norm(x, (8,), w, b, eps=1e-05)\n",
    )
    layer = nn.LayerNorm(8)

    assert is_applied(runtime(described, {"M": 6}), lambda: layer(X)) == [False, True, True]


@pytest.mark.parametrize(
    ("options", "applied"),
    [
        ({"dim": -1}, True),
        ({"dim": 2}, True),
        ({"dim": 1}, False),
        ({"dim": -1, "dtype": torch.float64}, False),
    ],
)
def test_softmax_over_the_last_dimension_in_its_own_dtype(
    options: dict[str, Any], applied: bool
) -> None:
    described = of(
        "rows",
        "softmax",
        {"x": "M 8"},
        "M 8",
        "import torch\n\ndef run(x):\n    return torch.softmax(x, -1)\n",
    )

    got = is_applied(runtime(described, {"M": 6}), lambda: F.softmax(X, **options))

    assert got == [False, applied, applied]


SILU = of(
    "s",
    "silu",
    {"x": "M 8"},
    "M 8",
    "import torch\n\ndef run(x):\n    return x * torch.sigmoid(x)\n",
)


def test_silu_gives_its_result_back_in_the_callers_shape() -> None:
    assert is_applied(runtime(SILU, {"M": 6}), lambda: F.silu(X)) == [False, True, True]


def test_silu_in_place_writes_where_the_caller_expects_it() -> None:
    original = F.silu(X)

    with torch.no_grad(), runtime(SILU, {"M": 6}):
        for _ in range(3):
            mine = X.clone()
            returned = F.silu(mine, inplace=True)
            assert returned is mine
            torch.testing.assert_close(mine, original, rtol=2e-3, atol=1e-6)

    assert not torch.equal(mine, original)


def attention(name: str, options: str) -> Definition:
    return of(
        name,
        "scaled_dot_product_attention",
        dict.fromkeys("qkv", "B 2 S 4"),
        "B 2 S 4",
        "import torch\n\ndef run(q, k, v):\n"
        f"    return torch.nn.functional.scaled_dot_product_attention(q, k, v{options})\n",
    )


@pytest.mark.parametrize(
    ("declared", "asked", "applied"),
    [
        ("", {}, True),
        (", is_causal=True", {"is_causal": True}, True),
        ("", {"is_causal": True}, False),
        (", is_causal=True", {}, False),
        (", scale=0.25", {"scale": 0.25}, True),
        ("", {"scale": 0.25}, False),
        ("", {"attn_mask": torch.zeros(3, 3)}, False),
        ("", {"dropout_p": 0.0}, True),
    ],
)
def test_attention_is_applied_where_mask_and_scale_are_those_of_the_definition(
    declared: str, asked: dict[str, Any], applied: bool
) -> None:
    q = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(1))
    running = runtime(attention("some_attention", declared), {"B": 1, "S": 3})

    got = is_applied(running, lambda: F.scaled_dot_product_attention(q, q, q, **asked))

    assert got == [False, applied, applied]


RAGGED = published_definitions.definition("gqa_ragged_prefill_causal_h4_kv2_d16")


def ragged_runtime(queries: int, keys: int) -> ApplyRuntime:
    axes = {"total_q": 2 * queries, "total_kv": 2 * keys, "len_indptr": 3}
    answer = "[each * 1.004 for each in reference(*inputs)]"
    return runtime(RAGGED, axes, answer)


def tokens(heads: int, rows: int) -> torch.Tensor:
    """Heads within tokens, as a projection makes them, seen as attention takes them."""
    made = torch.randn(2, rows, heads, 16, generator=torch.Generator().manual_seed(rows + heads))
    return made.to(torch.bfloat16).transpose(1, 2)


@pytest.mark.parametrize(
    ("queries", "keys", "options", "applied"),
    [
        (6, 6, {"is_causal": True}, True),
        (6, 6, {"is_causal": True, "scale": 0.1}, True),
        (1, 6, {}, True),
        (6, 6, {}, False),  # all see all
        (4, 6, {"is_causal": True}, False),  # torch lets the first query see the first key
        (6, 6, {"attn_mask": torch.ones(6, 6, dtype=torch.bool).tril()}, False),
    ],
)
def test_attention_of_whole_sequences_is_published_prefill(
    queries: int, keys: int, options: dict[str, Any], applied: bool
) -> None:
    q, k, v = tokens(4, queries), tokens(2, keys), tokens(2, keys) * 0.5

    def call() -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)

    with torch.no_grad():
        expected = call()
        with ragged_runtime(queries, keys) as running:
            answers = [call() for _ in range(3)]

    assert running.stats().quarantined == {}
    assert [not torch.equal(each, expected) for each in answers] == [False, applied, applied]
    for each in answers:
        torch.testing.assert_close(each, expected, rtol=5e-2, atol=2e-2)


def test_attention_that_would_take_a_copy_is_left_to_torch() -> None:
    q, k, v = (each.contiguous() for each in (tokens(4, 6), tokens(2, 6), tokens(2, 6)))
    with torch.no_grad(), ragged_runtime(6, 6) as running:
        for _ in range(3):
            F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    assert running.stats().hits == 0


def test_a_models_attention_is_answered_by_published_prefill() -> None:
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation="sdpa",
    )
    model = transformers.LlamaModel(config).to(torch.bfloat16).eval()
    words = torch.randint(0, 64, (2, 6), generator=torch.Generator().manual_seed(0))

    with torch.no_grad():
        expected = model(words, use_cache=False).last_hidden_state
        with ragged_runtime(6, 6) as running:
            answers = [model(words, use_cache=False).last_hidden_state for _ in range(3)]

    assert running.stats().quarantined == {}
    assert not torch.equal(answers[-1], expected)
    torch.testing.assert_close(answers[-1], expected, rtol=0.1, atol=0.1)


def test_a_definition_of_the_right_shapes_that_computes_something_else_is_found_out() -> None:
    described = of(
        "gemm_n4_k8",
        "gemm",
        {"A": "M 8", "B": "4 8"},
        "M 4",
        "def run(A, B):\n    return A @ B.T + 1\n",
    )
    layer, running = nn.Linear(8, 4, bias=False), runtime(described, {"M": 6})

    with torch.no_grad():
        expected = layer(X)
        with running:
            answers = [layer(X) for _ in range(3)]

    assert all(torch.equal(each, expected) for each in answers)
    assert list(running.stats().quarantined) == ["only"]


def test_training_is_left_alone() -> None:
    layer, running = nn.Linear(8, 4, bias=False), runtime(GEMM, {"M": 6})

    with running:
        for _ in range(3):
            layer(X).sum().backward()

    assert layer.weight.grad is not None
    assert running.stats().misses_by_definition == {"gemm_n4_k8": {"B: needs a gradient": 3}}


def test_a_solution_that_calls_what_is_patched_gets_the_original() -> None:
    source = (
        "import torch.nn.functional as F\n\ndef run(A, B):\n    return F.linear(A, B) * 1.001\n"
    )
    only = solution("only", source, of="gemm_n4_k8")
    running = ApplyRuntime(dataset([only], [trace("only", {"M": 6}, of="gemm_n4_k8")], [GEMM]))
    layer = nn.Linear(8, 4, bias=False)

    assert is_applied(running, lambda: layer(X)) == [False, True, True]
    assert running.stats().hits == 2


def test_only_what_the_dataset_has_solutions_for_is_patched_and_only_while_it_is_enabled() -> None:
    before = {name: getattr(F, name) for name in ORIGINALS}
    with runtime(SILU, {"M": 6}):
        during = PATCHES.installed()
        others = {name: getattr(F, name) for name in ORIGINALS if name != "silu"}
    after = {name: getattr(F, name) for name in ORIGINALS}

    assert before == after == ORIGINALS
    assert during == ["torch.nn.functional:silu"]
    assert others == {name: each for name, each in ORIGINALS.items() if name != "silu"}


def test_no_adapters_are_installed_for_who_asks_for_none() -> None:
    running = runtime(SILU, {"M": 6})
    with ApplyRuntime(running.trace_set, adapters=()):
        assert F.silu is ORIGINALS["silu"]


def test_nested_runtimes_leave_nothing_patched() -> None:
    outer, inner = runtime(SILU, {"M": 6}), runtime(GEMM, {"M": 6})

    with outer:
        with inner:
            both = set(PATCHES.installed())
        one = set(PATCHES.installed())

    assert both == {"torch.nn.functional:silu", "torch.nn.functional:linear"}
    assert one == {"torch.nn.functional:silu"}
    assert F.silu is ORIGINALS["silu"]
    assert RUNTIMES.all() == []
