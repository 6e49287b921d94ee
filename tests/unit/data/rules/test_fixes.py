"""What is mechanical is repaired: nothing is lost, and a second repair finds nothing to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from flashinfer_bench.data import TraceSet, appending
from flashinfer_bench.data.rules.fixes import fix, prune
from flashinfer_bench.errors import UsageError
from tests.unit.data.rules.datasets import (
    ALICE,
    DEFINITION,
    NAME,
    TRACES,
    WORKLOADS,
    Dataset,
)
from tests.unit.data.rules.test_rules import CASES

REPAIRED = (
    *("LAY-02", "LAY-03", "LAY-04", "LAY-06", "LAY-08", "LAY-09", "LAY-10", "LAY-13", "LAY-15"),
    *("LAY-17", "LAY-18", "DEF-12", "WKL-26", "WKL-28"),
)


def words(dataset: Dataset) -> Counter[str]:
    """Every line of every file, however often and wherever."""
    return Counter(
        line.strip()
        for content in dataset.content().values()
        for line in content.decode(errors="replace").splitlines()
        if line.strip()
    )


@pytest.mark.parametrize("code", REPAIRED)
def test_a_repair_leaves_nothing_to_say(good: Dataset, code: str) -> None:
    CASES[code](good)

    done = fix(good.root)

    assert done
    assert good.findings() == []


REWRITTEN = {"DEF-12", "WKL-26", "WKL-28"}  # repairs that say a line in other words


@pytest.mark.parametrize("code", CASES)
def test_a_repair_loses_no_line_and_a_second_finds_nothing_to_do(good: Dataset, code: str) -> None:
    CASES[code](good)
    before = words(good)
    fix(good.root)
    repaired = good.content()

    again = fix(good.root)

    assert again == []
    assert good.content() == repaired
    assert code in REWRITTEN or before - words(good) == Counter()


def test_a_good_dataset_stays_byte_for_byte(good: Dataset) -> None:
    before = good.content()

    assert fix(good.root) == []
    assert good.content() == before


def test_everything_at_once_is_repaired(good: Dataset) -> None:
    good.edit(DEFINITION, lambda definition: definition["axes"]["rows"].pop("type"))
    good.move(DEFINITION, "definitions/rowsum.json")
    good.edit_line(WORKLOADS, 1, lambda line: line["workload"].pop("uuid"))
    good.move(WORKLOADS, "workloads/sums/all.jsonl")
    good.move(ALICE, "solutions/rowsum")
    good.write(TRACES, good.read(TRACES) + '{"definition": "scal')
    good.move(TRACES, "traces/results.jsonl")

    done = fix(good.root)

    assert len(done) == 7
    assert good.findings() == []
    assert good.lines("traces/results.jsonl.torn") == ['{"definition": "scal']
    assert len(TraceSet.from_path(good.root).traces[NAME]) == 4


def test_markers_leave_the_rest_of_the_text_alone(good: Dataset) -> None:
    text = '{"axes":{"rows" : {"description":"r"},\n  "N": { "value":256,"description":"n" } },' + (
        good.read(DEFINITION).partition('"constraints"')[2]
    ).join(['"name":"scaled_rowsum_n256","op_type":"reduce","description":"d","constraints"', ""])
    good.write(DEFINITION, text)

    fix(good.root)

    assert good.read(DEFINITION) == text.replace(
        '{"description":"r"}', '{"type": "var", "description":"r"}'
    ).replace('{ "value":256', '{"type": "const",  "value":256')


def test_lines_of_two_definitions_are_taken_apart(good: Dataset) -> None:
    definition = json.loads(good.read(DEFINITION)) | {"name": "other"}
    good.write("definitions/reduce/other.json", json.dumps(definition))
    good.edit_line(WORKLOADS, 1, lambda line: line.update(definition="other"))
    first, second = good.lines(WORKLOADS)

    done = fix(good.root)

    assert done == [f"{WORKLOADS}: moved 1 line to workloads/reduce/other.jsonl"]
    assert good.lines("workloads/reduce/other.jsonl") == [first]
    assert good.lines(WORKLOADS) == [second]


def test_lines_join_those_that_are_in_their_place(good: Dataset) -> None:
    first, second = good.lines(TRACES)
    good.write(f"traces/bob/reduce/{NAME}.jsonl", second + "\n")
    good.write(TRACES, first + "\n")

    fix(good.root)

    assert good.lines(TRACES) == [first, second]
    assert not good.path("traces/bob").exists()


def test_samples_move_with_their_traces(good: Dataset) -> None:
    good.move(TRACES, f"traces/alice/sums/{NAME}.jsonl")
    good.write(
        f"traces/alice/sums/{NAME}.samples.ndjson", '{"trace_id":"t00","solution_ms":[1.0]}\n'
    )

    fix(good.root)

    trace_set = TraceSet.from_path(good.root)
    trace = trace_set.traces[NAME][0]
    assert trace_set.samples_of(trace) == {"solution": [1.0]}


def test_half_a_line_in_the_middle_of_traces_is_set_aside(good: Dataset) -> None:
    first, second = good.lines(TRACES)
    good.write(TRACES, f"{first}\n{first[:40]}\n{second}\n")

    done = fix(good.root)

    assert done == [f"{TRACES}: moved 1 line of no JSON to {NAME}.jsonl.torn"]
    assert good.lines(TRACES) == [first, second]
    assert good.lines(f"{TRACES}.torn") == [first[:40]]


def test_nothing_takes_the_place_of_something_else(good: Dataset) -> None:
    good.edit(DEFINITION, lambda definition: definition.update(description="Mine."))
    good.write("definitions/sums/copy.json", good.read(DEFINITION))
    before = good.content()

    assert fix(good.root) == []
    assert good.content() == before
    assert "LAY-01" in good.codes()


APPENDER = """
import sys
from flashinfer_bench.data import appending
for number in range(400):
    appending.append({sys.argv[1]: b'{"line":%d}\\n' % number})
"""


def test_lines_that_are_appended_meanwhile_are_kept(good: Dataset) -> None:
    """A benchmark goes on appending to the very file that repairs take lines out of."""
    path = os.fspath(good.path(TRACES))
    stranger = good.lines(f"traces/baseline/reduce/{NAME}.jsonl")[0].encode() + b"\n"
    process = subprocess.Popen([sys.executable, "-c", APPENDER, path])
    repairs = 0
    while process.poll() is None:
        appending.append({path: stranger})
        repairs += len(fix(good.root))

    appended = [line for line in good.lines(TRACES) if line.startswith('{"line"')]
    assert process.returncode == 0
    assert repairs > 1
    assert appended == [f'{{"line":{number}}}' for number in range(400)]


def test_what_was_repaired_is_told(good: Dataset) -> None:
    good.move(DEFINITION, "definitions/x.json")

    assert fix(good.root) == [f"definitions/x.json: moved to {DEFINITION}"]


def test_traces_of_a_solution_that_is_gone_are_one_finding_and_are_set_aside(
    good: Dataset,
) -> None:
    kept = good.lines(TRACES)
    gone = [line.replace(json.loads(line)["solution"], name) for line in kept for name in "xy"]
    (good.root / TRACES).write_text("".join(f"{line}\n" for line in [*gone, *kept]))

    (found,) = [each for each in good.findings() if each.code == "TRC-05"]
    done = prune(good.root)

    assert found.level == "warning"
    assert found.message == f"{len(gone)} traces of 2 solutions that do not exist: 'x', 'y'"
    assert done == [
        f"{TRACES}: moved {len(gone)} traces of solutions that are gone to {NAME}.jsonl.gone"
    ]
    assert good.lines(TRACES) == kept
    assert good.lines(f"{TRACES}.gone") == gone
    assert good.findings() == []
    assert prune(good.root) == []
    left = {trace.solution for trace in TraceSet.from_path(good.root).traces[NAME]}
    assert left.isdisjoint("xy")


def test_nothing_is_set_aside_where_a_solution_cannot_be_read_or_there_are_none(
    good: Dataset,
) -> None:
    (good.root / "solutions/broken.json").write_text("{")
    with pytest.raises(UsageError, match="cannot be read; correct it first"):
        prune(good.root)

    shutil.rmtree(good.root / "solutions")
    with pytest.raises(UsageError, match="holds no solutions"):
        prune(good.root)
