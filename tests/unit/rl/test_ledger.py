"""The folder of verdicts: what is kept is found, it stays bounded, and its faults lose nothing."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from flashinfer_bench.errors import StorageError
from flashinfer_bench.rl import KernelVerdict, WorkloadVerdict
from flashinfer_bench.rl.ledger import VerdictLedger, verdict_key


def verdict(number: int) -> KernelVerdict:
    line = WorkloadVerdict({"n": number}, "PASSED", 1.5, 1.25, 0.5, 0.625)
    return KernelVerdict(
        candidate=str(number),
        definition="increment",
        split="train",
        reward=number / 3,
        right=True,
        workloads=(line,),
        violations=("changed_inputs",),
    )


def _judge_once(folder: Path, count: multiprocessing.Value) -> None:  # type: ignore[valid-type]
    ledger, key = VerdictLedger(folder), verdict_key("same")
    with ledger.holding([key]):
        if not ledger.find([key]):
            with count.get_lock():  # type: ignore[attr-defined]
                count.value += 1  # type: ignore[attr-defined]
            ledger.keep({key: verdict(1)})


def test_another_ledger_of_the_folder_finds_the_very_verdict(tmp_path: Path) -> None:
    kept = {verdict_key(number): verdict(number) for number in range(3)}
    VerdictLedger(tmp_path).keep(kept)

    found = VerdictLedger(tmp_path).find([*kept, verdict_key("unknown")])

    assert found == kept


def test_the_oldest_go_beyond_the_bound(tmp_path: Path) -> None:
    ledger = VerdictLedger(tmp_path, most=2)
    for number in range(4):
        ledger.keep({str(number): verdict(number)})

    found = ledger.find(["0", "1", "2", "3"])

    assert sorted(found) == ["2", "3"]


def test_processes_that_ask_at_once_judge_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    count = context.Value("i", 0)
    asking = [context.Process(target=_judge_once, args=(tmp_path, count)) for _ in range(4)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()

    assert [each.exitcode for each in asking] == [0] * 4
    assert count.value == 1


def test_a_broken_file_is_judged_again_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "verdicts.sqlite").write_bytes(b"no database" * 100)
    ledger = VerdictLedger(tmp_path)

    found = ledger.find(["key"])
    ledger.keep({"key": verdict(1)})

    assert found == {}
    assert "judged again" in caplog.text
    assert "does not keep the verdict" in caplog.text


def test_a_folder_that_cannot_be_made_is_a_storage_error() -> None:
    ledger = VerdictLedger(Path("/dev/null/ledger"))

    with pytest.raises(StorageError, match="cannot hold verdicts"), ledger.holding(["ab"]):
        pytest.fail("it was held")
