"""Scores of a paged indexer, recomputed from a cache of eight-bit keys."""

from __future__ import annotations

import pytest
import torch

from flashinfer_bench.data import Definition
from flashinfer_bench.judging import JudgedCall, Tolerance, judge_name
from flashinfer_bench.judging.judges import judge_for
from flashinfer_bench.judging.top_k import IndexerScores

BATCH, HEADS, WIDTH, PAGES, PAGE_SIZE, TOP_K = 2, 4, 16, 6, 8, 5
INDEXER = Definition(
    name="dsa_topk_indexer_fp8_h4_d16_topk5_ps8",
    op_type="dsa_paged",
    axes={
        "b": {"type": "var"},
        "num_pages": {"type": "var"},
        "max_num_pages": {"type": "var"},
        "h": {"type": "const", "value": HEADS},
        "d": {"type": "const", "value": WIDTH},
        "page_size": {"type": "const", "value": PAGE_SIZE},
        "heads_kv": {"type": "const", "value": 1},
        "with_scale": {"type": "const", "value": WIDTH + 4},
        "topk": {"type": "const", "value": TOP_K},
    },
    inputs={
        "q_index_fp8": {"shape": ["b", "h", "d"], "dtype": "float8_e4m3fn"},
        "k_index_cache_fp8": {
            "shape": ["num_pages", "page_size", "heads_kv", "with_scale"],
            "dtype": "int8",
        },
        "weights": {"shape": ["b", "h"], "dtype": "float32"},
        "seq_lens": {"shape": ["b"], "dtype": "int32"},
        "block_table": {"shape": ["b", "max_num_pages"], "dtype": "int32"},
    },
    outputs={"topk_indices": {"shape": ["b", "topk"], "dtype": "int32"}},
    reference="def run(q, k, w, s, t):\n    return s\n",
)


def packed(keys: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Float8 keys of a page's tokens, then their float32 scales."""
    raw = keys.to(torch.float8_e4m3fn).view(torch.uint8).reshape(PAGES, -1)
    tail = scales.view(torch.uint8).reshape(PAGES, -1)
    return torch.cat([raw, tail], -1).view(torch.int8).view(PAGES, PAGE_SIZE, 1, WIDTH + 4)


GENERATOR = torch.Generator().manual_seed(4)
KEYS = torch.randn(PAGES, PAGE_SIZE, WIDTH, generator=GENERATOR)
SCALES = torch.rand(PAGES, PAGE_SIZE, generator=GENERATOR) + 0.5
INPUTS = {
    "q_index_fp8": torch.randn(BATCH, HEADS, WIDTH, generator=GENERATOR).to(torch.float8_e4m3fn),
    "k_index_cache_fp8": packed(KEYS, SCALES),
    "weights": torch.rand(BATCH, HEADS, generator=GENERATOR),
    "seq_lens": torch.tensor([13, 3], dtype=torch.int32),
    "block_table": torch.tensor([[4, 1], [0, 5]], dtype=torch.int32),
}


def plainly(row: int, token: int) -> float:
    """The score of one token, from the formula."""
    page, place = divmod(token, PAGE_SIZE)
    key = KEYS[page, place].to(torch.float8_e4m3fn).float() * SCALES[page, place]
    heads = torch.relu(INPUTS["q_index_fp8"][row].float() @ key)
    return float((heads * INPUTS["weights"][row]).sum())


def ranked(row: int) -> list[int]:
    """The sequence's tokens from the best to the worst."""
    length, pages = int(INPUTS["seq_lens"][row]), INPUTS["block_table"][row].tolist()
    own = [page * PAGE_SIZE + place for page in pages for place in range(PAGE_SIZE)][:length]
    return sorted(own, key=lambda token: -plainly(row, token))


FIRST, SECOND = ranked(0), ranked(1)
EXPECTED = torch.tensor([FIRST[:5], [*SECOND, -1, -1]], dtype=torch.int32)


def is_accepted(first: list[int], second: list[int]) -> bool:
    got = torch.tensor([first, second], dtype=torch.int32)
    case = judge_for(INDEXER).open_case(Tolerance(rtol=1e-4, atol=1e-4))
    return case.hear(JudgedCall(list(INPUTS.values()), [got], [EXPECTED])).is_accepted


def test_scores_follow_the_formula() -> None:
    scores = IndexerScores(INPUTS, Tolerance(1e-2, 1e-2)).of(
        torch.tensor([[0, 9, 37], [5, 44, 47]])
    )

    wanted = [
        [plainly(row, token) for token in tokens]
        for row, tokens in enumerate([[0, 9, 37], [5, 44, 47]])
    ]
    assert scores.tolist() == [pytest.approx(each, rel=1e-5) for each in wanted]


def test_an_indexer_is_judged_by_its_choice() -> None:
    assert judge_name(INDEXER) == "top_k"
    assert is_accepted(FIRST[:5], [*SECOND, -1, -1])
    assert is_accepted(FIRST[4::-1], [-1, *SECOND[::-1], -1])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([*FIRST[:4], FIRST[5]], [*SECOND, -1, -1]),
        (FIRST[:5], [*SECOND, SECOND[0], -1]),
        (FIRST[:5], [*SECOND[:2], 3, -1, -1]),
        (FIRST[:5], [*SECOND[:2], 44, -1, -1]),
        (FIRST[:5], [*SECOND[:2], -1, -1, -1]),
        ([*FIRST[:4], 10_000], [*SECOND, -1, -1]),
    ],
    ids=["worse", "repeated", "behind the end", "another page", "too few", "outside the cache"],
)
def test_a_wrong_choice_is_refused(first: list[int], second: list[int]) -> None:
    assert not is_accepted(first, second)


def test_tokens_with_equal_keys_are_interchangeable() -> None:
    keys, scales = KEYS.clone(), SCALES.clone()
    best_left_out, last_chosen = divmod(FIRST[5], PAGE_SIZE), divmod(FIRST[4], PAGE_SIZE)
    keys[best_left_out], scales[best_left_out] = keys[last_chosen], scales[last_chosen]
    inputs = INPUTS | {"k_index_cache_fp8": packed(keys, scales)}
    got = EXPECTED.clone()
    got[0, 4] = FIRST[5]

    case = judge_for(INDEXER).open_case(Tolerance(1e-2, 1e-2))

    assert case.hear(JudgedCall(list(inputs.values()), [got], [EXPECTED])).is_accepted
