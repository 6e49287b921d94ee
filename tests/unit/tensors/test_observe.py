"""What a draft says of integers that were seen."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from flashinfer_bench.tensors.observe import _as_sets, _declarable  # noqa: E402  # it imports torch


@pytest.mark.parametrize(
    ("values", "declared"),
    [
        ([0, 3, 3, 16], '"distribution": {"type": "index_pointers", "total": 16}'),
        ([3, 0, 16], '"distribution": {"type": "integers", "low": 0, "high": 17}'),
        ([[0, 1], [2, 3]], '"distribution": {"type": "integers", "low": 0, "high": 4}'),
        ([], ""),
    ],
)
def test_what_could_be_declared_instead(values: list[int], declared: str) -> None:
    said = _declarable(torch.tensor(values, dtype=torch.int32))

    assert declared in said
    assert bool(said) == bool(values)


def test_what_is_yielded_are_sets_also_where_each_is_one_tensor() -> None:
    first, second = torch.zeros(2, 3), torch.zeros(4, 3)

    assert _as_sets(iter([first, second]), "example_inputs") == [(first,), (second,)]
    assert _as_sets(iter([(first,), {"x": second}]), "example_inputs") == [(first,), {"x": second}]
    assert _as_sets([first, second], "get_inputs") == [[first, second]]
