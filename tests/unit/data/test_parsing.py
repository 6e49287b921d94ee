from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from flashinfer_bench.data import Definition, Trace
from flashinfer_bench.data.parsing import TextPlace, UnknownKeys, offset_of, parse, without_comments
from flashinfer_bench.errors import DatasetError, DatasetWarning


def test_a_field_error_names_file_line_column_and_field(build: Any) -> None:
    content = build.definition_json | {"inputs": {"x": {"shape": ["rows"], "dtype": "float99"}}}
    text = json.dumps(content, indent=2)
    line = next(i for i, each in enumerate(text.split("\n"), 1) if "float99" in each)
    column = text.split("\n")[line - 1].index('"float99"') + 1

    with pytest.raises(DatasetError) as caught:
        parse(Definition, text, TextPlace("d.json"))

    assert str(caught.value).startswith(f"d.json:{line}:{column}: Definition.inputs.x.dtype: ")
    assert "'float99'" in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_a_line_of_many_keeps_its_number(build: Any) -> None:
    with pytest.raises(DatasetError, match=r"^t.jsonl:7:\d+: Trace.workload.axes.rows: "):
        parse(Trace, build.trace_line.replace("128", '"many"'), TextPlace("t.jsonl", 7))


def test_a_missing_field_is_placed_at_what_lacks_it(build: Any) -> None:
    text = build.trace_line.replace('"status":"PASSED",', "")

    with pytest.raises(DatasetError, match=r"Trace\.evaluation.status: is required"):
        parse(Trace, text)


def test_an_unknown_kind_is_named(build: Any) -> None:
    text = build.trace_line.replace('"random"', '"zeros"')

    with pytest.raises(DatasetError, match="unknown type 'zeros'; expected 'random', 'scalar'"):
        parse(Trace, text)


@pytest.mark.parametrize("text", ['{"name": "d",}', '{"name": "d"', "", "nonsense"])
def test_bad_json_is_placed(text: str) -> None:
    with pytest.raises(DatasetError, match=r"^d.json:1:\d+: not JSON"):
        parse(Definition, text, TextPlace("d.json"))


def test_bytes_that_are_no_text_are_an_error() -> None:
    with pytest.raises(DatasetError, match="not UTF-8: byte 9 is 0xff"):
        parse(Definition, b'{"name":"\xff"}', TextPlace("d.json"))


def test_half_of_a_surrogate_pair_is_an_error(build: Any) -> None:
    whole = json.dumps(build.definition().to_dict() | {"description": "\U0001f600"})
    half = whole.replace("\\ude00", "")
    assert half != whole

    with pytest.raises(DatasetError, match="half of a surrogate pair stands alone"):
        parse(Definition, half)
    assert parse(Definition, whole).description == "\U0001f600"


def test_json_nested_too_deeply_is_an_error() -> None:
    with pytest.raises(DatasetError, match="not JSON"):
        parse(Definition, "[" * 100_000, TextPlace("d.json"))


def test_a_number_too_long_to_read_is_an_error(build: Any) -> None:
    with pytest.raises(DatasetError, match="not JSON"):
        parse(Trace, build.trace_line.replace("128", "1" * 5000))


def test_unknown_keys_are_counted_when_lenient(build: Any) -> None:
    unknown = UnknownKeys()
    text = build.trace_line.replace('"type":"random"', '"type":"random","seed":1').replace(
        '"libs"', '"host":"h","libs"'
    )

    first = parse(Trace, text, unknown=unknown)
    parse(Trace, text, unknown=unknown)

    assert first.to_json() == build.trace_line
    assert unknown.counts == {("RandomInput", "seed"): 2, ("Environment", "host"): 2}


def test_unknown_keys_are_an_error_when_strict(build: Any) -> None:
    text = build.trace_line.replace('"log"', '"logs"')

    with pytest.raises(DatasetError, match=r"Trace\.evaluation.logs: unknown key"):
        parse(Trace, text)


def test_a_grave_fault_is_reported_before_an_unknown_key(build: Any) -> None:
    text = build.trace_line.replace('"log":""', '"log":1,"logs":""')

    with pytest.raises(DatasetError, match=r"Trace.evaluation.log: .*, not 1$"):
        parse(Trace, text, unknown=UnknownKeys())


def test_each_unknown_key_warns_once() -> None:
    unknown = UnknownKeys()
    unknown.counts[("TensorSpec", "optional")] = 3

    with pytest.warns(DatasetWarning, match=r"'optional' of TensorSpec ignored \(3 times\)"):
        unknown.warn()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unknown.warn()


def test_the_flat_form_in_a_file_is_read() -> None:
    line = {
        "definition": "d",
        "workload": {"axes": {}, "inputs": {}, "uuid": "w"},
        "solution": "s",
        "evaluation": {"status": "TIMEOUT", "hardware": "cpu", "timestamp": "t"},
    }

    assert not parse(Trace, json.dumps(line)).is_successful()


def test_comments_and_trailing_commas_keep_everything_in_place() -> None:
    text = '{ // one\n "a": [1, 2, /* two */ ],\n "b": "// no, ]",\n}'

    plain = without_comments(text)

    assert json.loads(plain) == {"a": [1, 2], "b": "// no, ]"}
    assert len(plain) == len(text)
    assert plain.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("field", "found"),
    [(("b", 1, "c"), "7"), (("b", "tag", 0), "{"), (("a",), '"x'), (("zz",), "{"), ((), "{")],
)
def test_a_field_is_found_in_text(field: tuple[str | int, ...], found: str) -> None:
    text = '  {"a": "x\\"y", "b": [{"d": 1}, {"c": 7}]}'

    assert text[offset_of(text, field) :].startswith(found)


def test_a_contradiction_beside_an_unknown_key_is_an_error_with_its_place(build: Any) -> None:
    trace = json.loads(build.trace_line)
    trace["evaluation"] |= {"status": "INCORRECT_DTYPE", "invented": 1}

    with pytest.raises(DatasetError, match=r"^t.jsonl:7:\d+: Trace.evaluation: correctness must"):
        parse(Trace, json.dumps(trace), TextPlace("t.jsonl", 7), unknown=UnknownKeys())
