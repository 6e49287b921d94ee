"""What a failed job's log says, as values."""

from __future__ import annotations

import pytest

from flashinfer_bench.report.failures import (
    CompilerMessage,
    Mismatch,
    ReportedException,
    failure_of,
)

WRONG = """\
trial 0, call 0: output 'y': 3 of 8 elements differ, 1 of them in NaN or infinity
  at [0, 3]: got nan, expected -0.0130615
  at [7]: got -1e-05, expected inf
  at [1]: never written, expected 2
  absolute error  elements
            none  # 190
"""
RAISED = """\
Traceback (most recent call last):
  File "/a/one.py", line 2, in run
    return f(x)
  File "/a/two.py", line 9, in f
RuntimeError: size mismatch: 3
"""


def test_elements_that_differ_are_values() -> None:
    failure = failure_of("INCORRECT_NUMERICAL", WRONG)

    assert failure is not None
    assert (failure.rule, failure.wrong_elements, failure.elements) == ("tolerance", 3, 8)
    assert repr(failure.mismatches[0]) == repr(Mismatch("y", (0, 3), float("nan"), -0.0130615))
    assert failure.mismatches[1:] == (
        Mismatch("y", (7,), -1e-05, float("inf")),
        Mismatch("y", (1,), None, 2.0),
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "./bad.cpp:3:92: error: 'foo' was not declared",
            CompilerMessage("bad.cpp", 3, 92, "error", "'foo' was not declared"),
        ),
        (
            '/a/k.cu(12): error: identifier "x" is undefined',
            CompilerMessage("/a/k.cu", 12, None, "error", 'identifier "x" is undefined'),
        ),
    ],
)
def test_lines_of_compilers_are_values(line: str, message: CompilerMessage) -> None:
    failure = failure_of("COMPILE_ERROR", f"solution 'bad' does not compile\n{line}\n   3 | int x")

    assert failure is not None
    assert (failure.rule, failure.compiler) == ("builds", (message,))


def test_an_exception_is_named_with_its_innermost_place() -> None:
    failure = failure_of("RUNTIME_ERROR", RAISED)

    assert failure is not None
    assert failure.exception == ReportedException(
        "RuntimeError", "size mismatch: 3", "/a/two.py", 9
    )


def test_a_signal_is_named() -> None:
    failure = failure_of("RUNTIME_ERROR", "its process was ended by SIGSEGV\nFatal Python error")

    assert failure is not None
    assert (failure.signal, failure.rule) == ("SIGSEGV", "returns")


def test_a_broken_rule_is_named_by_its_code() -> None:
    failure = failure_of("INCORRECT_NUMERICAL", "input written", ("input_mutated", "other"))

    assert failure is not None
    assert (failure.rule, failure.message) == ("input_mutated", "input written")


def test_what_passed_has_no_failure() -> None:
    assert failure_of("PASSED", "Traceback") is None
