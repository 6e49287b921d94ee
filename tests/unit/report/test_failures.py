"""What a failed job's log says, as values."""

from __future__ import annotations

import pytest

from flashinfer_bench.report.failures import (
    CodePlace,
    CompilerMessage,
    Mismatch,
    ReportedException,
    failure_of,
    is_by_error,
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


@pytest.mark.parametrize(
    ("first", "rule"),
    [
        ("its error is 3.1e+05 times the reference's own; 100 is allowed", "precision"),
        ("notes count as failures here: unusual_draw", "notes"),
        ("output 'i': in row 1: 3 of 9 tokens lie outside what may be drawn", "tokens"),
        (
            "output 'y': 3 of 9 elements, the first is number 1, are wrong in each of 4 calls",
            "omissions",
        ),
        ("trial 0, call 0: output 'i': 3 of 9 indices are wrong", "indices"),
        (
            "output 'y': 3 of 9 elements differ in the sign of zero, the first at [0]",
            "sign_of_zero",
        ),
        ("output 'y': 3 of 9 elements differ", "tolerance"),
    ],
)
def test_the_rule_that_decided_is_named_though_no_element_is_too_far_off(
    first: str, rule: str
) -> None:
    failure = failure_of("INCORRECT_NUMERICAL", f"{first}\n  at [0]: got 1, expected 2\n")

    assert failure is not None
    assert failure.rule == rule
    assert is_by_error("INCORRECT_NUMERICAL", first) is (rule == "tolerance")


def test_an_error_says_how_good_it_was_where_it_passed_and_nothing_beside_a_violation() -> None:
    assert is_by_error("PASSED", "its error is 3 times the reference's own")
    assert not is_by_error("INCORRECT_NUMERICAL", WRONG, ["changed_inputs"])


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
        (
            "./bad.cpp:9: undefined reference to `scale(float)'",
            CompilerMessage("bad.cpp", 9, None, "error", "undefined reference to `scale(float)'"),
        ),
    ],
)
def test_lines_of_compilers_are_values(line: str, message: CompilerMessage) -> None:
    failure = failure_of("COMPILE_ERROR", f"solution 'bad' does not compile\n{line}\n   3 | int x")

    assert failure is not None
    assert (failure.rule, failure.compiler) == ("builds", (message,))


def test_a_flood_of_messages_is_cut() -> None:
    failure = failure_of("COMPILE_ERROR", "./k.cpp:3:5: error: what?\n" * 500)

    assert failure is not None
    assert len(failure.compiler) == 20


@pytest.mark.parametrize("before", ["", RAISED])
def test_a_source_that_does_not_parse_is_named_with_its_line(before: str) -> None:
    said = f"solution 'k': k.py cannot be imported\n{before}"
    said += "  File \"k.py\", line 7\n    def run(x)\n              ^\nSyntaxError: expected ':'"

    failure = failure_of("COMPILE_ERROR", said)

    assert failure is not None
    assert failure.exception == ReportedException("SyntaxError", "expected ':'", "k.py", 7)


def test_an_exception_is_named_with_its_innermost_place() -> None:
    failure = failure_of("RUNTIME_ERROR", RAISED)

    assert failure is not None
    assert failure.exception == ReportedException(
        "RuntimeError", "size mismatch: 3", "/a/two.py", 9
    )


@pytest.mark.parametrize("raised", ["main.Unfit: too long", "main.Unfit", "Größe: 3", "_E"])
def test_an_exception_may_be_called_anything(raised: str) -> None:
    name, _, message = raised.partition(": ")

    failure = failure_of("RUNTIME_ERROR", RAISED.replace("RuntimeError: size mismatch: 3", raised))

    assert failure is not None
    assert failure.exception == ReportedException(name, message, "/a/two.py", 9)


GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/a/one.py", line 2, in run
  |     raise ExceptionGroup("several", [ValueError("first")])
  | ExceptionGroup: several (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: first
    +------------------------------------
"""


def test_a_group_of_exceptions_is_named_like_an_exception() -> None:
    failure = failure_of("RUNTIME_ERROR", GROUP)

    assert failure is not None
    assert failure.message == "ExceptionGroup: several (1 sub-exception)"
    assert failure.exception == ReportedException(
        "ExceptionGroup", "several (1 sub-exception)", "/a/one.py", 2
    )


def test_an_exception_of_a_library_is_named_with_the_line_that_called_it() -> None:
    log = RAISED.replace("/a/two.py", "/venv/lib/python3.11/site-packages/torch/__init__.py")

    failure = failure_of("RUNTIME_ERROR", log)

    assert failure is not None
    assert failure.message == "RuntimeError: size mismatch: 3"
    assert failure.exception == ReportedException(
        "RuntimeError", "size mismatch: 3", "/a/one.py", 2
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


HUNG = """\
the kernel did not return within 2 s (--timeout)
it was here (the last call is the last line):
  File "main.py", line 8, in run
    return spin(x)
  File "main.py", line 3, in spin
    time.sleep(9)
  File "/usr/lib/python3.11/threading.py", line 320, in wait

  File "said.py", line 1, in printed
"""


def test_the_place_of_a_hang_is_the_users_innermost_line() -> None:
    failure = failure_of("TIMEOUT", HUNG)

    assert failure is not None
    assert failure.hung_at == CodePlace("main.py", 3, "spin")


def test_a_hang_in_compiled_code_has_no_place() -> None:
    said = "the kernel did not return within 2 s (--timeout)\nit was in compiled code\n"
    failure = failure_of("TIMEOUT", said)

    assert failure is not None
    assert failure.hung_at is None


def test_a_process_that_ended_itself_has_its_exit_code() -> None:
    logs = ("its process exited with code 3\nbye\n", "no\nits process exited with code 3\n", RAISED)

    found = [failure_of("RUNTIME_ERROR", log) for log in logs]

    assert [each and each.process_exit_code for each in found] == [3, None, None]


def test_the_message_of_a_failure_has_its_remedy_too() -> None:
    log = "nothing was written: " + "the kernel is called with (x, y), " * 10 + "so write into y\n"

    failure = failure_of("INCORRECT_NUMERICAL", log)

    assert failure is not None
    assert failure.message == log.strip()
