from __future__ import annotations

import math

import pytest

from flashinfer_bench.data import Profile
from flashinfer_bench.data.rows import TraceRow
from flashinfer_bench.report.model import ModelWorth, model_page, model_worth
from flashinfer_bench.report.standing import standing
from flashinfer_bench.text.tables import page_text

from .rows import row


def use(definition: str, count: int, **axes: int) -> dict[str, object]:
    return {"kernel": {"definition": definition, "axes": axes}, "count": count}


def worth(uses: list[dict[str, object]], *rows: TraceRow) -> ModelWorth:
    profile = Profile.model_validate({"model": "m", "framework": "PyTorch", "kernels": uses})
    (found,) = model_worth(profile, standing(rows, lambda _: None))
    return found


def measured(definition: str, reference_ms: float, speedup: float, **changes: object) -> TraceRow:
    return row(
        definition=definition,
        reference_latency_ms=reference_ms,
        latency_ms=reference_ms / speedup,
        speedup=speedup,
        **changes,
    )


def test_counts_weigh_kernels() -> None:
    found = worth(
        [use("mm", 2, n=1), use("norm", 10, n=1)],
        measured("mm", 4.0, 2.0),
        measured("norm", 0.2, 1.0),
    )

    assert (found.before_ms, found.after_ms) == pytest.approx((10.0, 6.0))
    assert found.speedup == pytest.approx(10 / 6)
    assert [each.kernel for each in found.kernels] == ["mm", "norm"]
    assert [each.share for each in found.kernels] == pytest.approx([0.8, 0.2])
    assert [each.share_after for each in found.kernels] == pytest.approx([4 / 6, 2 / 6])


def test_amdahl_says_what_a_kernel_could_give() -> None:
    found = worth(
        [use("mm", 2, n=1), use("norm", 10, n=1)],
        measured("mm", 4.0, 1.0),
        measured("norm", 0.2, 1.0),
    )

    assert [each.if_twice_as_fast for each in found.kernels] == pytest.approx([1 / 0.6, 1 / 0.9])
    assert [each.if_free for each in found.kernels] == pytest.approx([5.0, 1.25])


def test_a_model_of_one_kernel_has_no_limit() -> None:
    found = worth([use("mm", 1, n=1)], measured("mm", 4.0, 2.0))

    assert math.isinf(found.kernels[0].if_free)
    assert "∞" in page_text(model_page([found]))


def test_what_is_not_surely_faster_counts_as_the_reference() -> None:
    slower = worth([use("mm", 1, n=1)], measured("mm", 4.0, 0.5))
    perhaps = worth([use("mm", 1, n=1)], measured("mm", 4.0, 1.1, speedup_interval=(0.9, 1.3)))

    for found in (slower, perhaps):
        assert (found.kernels[0].best, found.speedup) == (None, 1.0)
        assert "the reference" in page_text(model_page([found]))


def test_of_several_the_fastest_that_is_surely_faster_counts() -> None:
    found = worth(
        [use("mm", 1, n=1)],
        measured("mm", 4.0, 3.0, solution="wild", speedup_interval=(0.5, 9.0)),
        measured("mm", 4.0, 2.0, solution="sure", speedup_interval=(1.9, 2.1)),
    )

    assert (found.kernels[0].best, found.speedup) == ("sure", 2.0)


def test_a_profile_must_say_which_of_several_sizes_is_meant() -> None:
    rows = [
        measured("mm", 4.0, 2.0, axes={"n": 1}),
        measured("mm", 8.0, 9.0, axes={"n": 2}, workload_uuid="w2"),
    ]

    found = worth([use("mm", 5)], *rows)

    assert (found.kernels, found.ambiguous) == ((), (("mm", 5),))
    assert (
        "1 kernel measured at several sizes, in no sum: the profile's `axes` do not say"
        in page_text(model_page([found]))
    )


def test_of_several_workloads_of_one_size_the_named_one_counts() -> None:
    named = {"definition": "mm", "axes": {"n": 1}, "workload": "w1"}
    rows = [
        measured("mm", 4.0, 2.0, axes={"n": 1}, workload_uuid="w1"),
        measured("mm", 8.0, 9.0, axes={"n": 1}, workload_uuid="worst"),
    ]

    found = worth([{"kernel": named, "count": 1}], *rows)
    unmeasured = worth([{"kernel": named, "count": 1}], rows[1])

    assert found.speedup == 2.0
    assert (
        unmeasured.speedup == 9.0
    )  # else a merged dictionary, which names workloads anew, weighs nothing


def test_a_kernel_never_called_weighs_nothing() -> None:
    found = worth(
        [use("mm", 0, n=1), use("norm", 2, n=1)],
        measured("mm", 4.0, 2.0),
        measured("norm", 1.0, 2.0),
    )

    assert [(each.kernel, each.share, each.if_free) for each in found.kernels] == [
        ("norm", 1.0, math.inf),
        ("mm", 0.0, 1.0),
    ]


def test_a_model_that_calls_nothing_has_no_speedup() -> None:
    found = worth([use("mm", 0, n=1)], measured("mm", 4.0, 2.0))

    assert (found.speedup, found.speedup_interval) == (None, None)
    assert "0 ns by references" in page_text(model_page([found]))


def test_what_part_of_the_model_was_measured_is_said() -> None:
    found = worth([use("mm", 1, n=1), use("gone", 3)], measured("mm", 4.0, 2.0))

    assert "that is of 1 of the model's 4 calls" in page_text(model_page([found]))


def test_intervals_are_carried_through() -> None:
    found = worth(
        [use("mm", 1, n=1), use("norm", 1, n=1)],
        measured("mm", 4.0, 2.0, speedup_interval=(1.6, 2.5)),
        measured("norm", 2.0, 1.0),
    )
    low, high = found.speedup_interval or (0.0, 0.0)

    assert (low, high) == pytest.approx((6 / 4.5, 6 / 3.6))


def test_sizes_must_be_those_of_the_profile() -> None:
    rows = [
        measured("mm", 4.0, 2.0, axes={"n": 1, "k": 7}),
        measured("mm", 8.0, 4.0, axes={"n": 2, "k": 7}, workload_uuid="w2"),
    ]

    found = worth([use("mm", 1, n=2), use("mm", 1, n=3)], *rows)

    assert [each.reference_ms for each in found.kernels] == [8.0]
    assert found.unmeasured == (("mm", 1),)
    assert "1 kernel not measured, in no sum: mm × 1" in page_text(model_page([found]))


def test_nothing_measured_is_said() -> None:
    found = worth([use("mm", 3)])

    assert (found.speedup, found.kernels) == (None, ())
    assert "none of its kernels was measured here" in page_text(model_page([found]))


def test_a_kernel_on_whose_workload_a_wrong_one_passes_is_named() -> None:
    uses = [use("mm", 2, n=1), use("norm", 10, n=1)]
    profile = Profile.model_validate({"model": "m", "framework": "PyTorch", "kernels": uses})
    rows = [measured("mm", 4.0, 2.0), measured("norm", 0.2, 1.0)]

    weak = {"norm": ["ignores bias", "copies x"], "elsewhere": ["makes zeros"]}
    (found,) = model_worth(profile, standing(rows, lambda _: None), weak)

    assert found.weak == (("norm", ("ignores bias", "copies x")),)
    said = page_text(model_page([found]))
    assert "on workloads of 1 kernel a wrong one passes, too:" in said
    assert "norm: one that ignores bias, copies x" in said
