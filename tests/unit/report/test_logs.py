"""A log on a page keeps what leads to the fix."""

from __future__ import annotations

from flashinfer_bench.report.logs import headline, log_lines

OURS = "/opt/flashinfer_bench/bench/candidate/harness.py"
LIBRARY = "/venv/lib/python3.11/site-packages/tilelang/jit/__init__.py"


def frame(file: str, line: int, function: str, code: str = "") -> str:
    return f'  File "{file}", line {line}, in {function}\n' + (f"    {code}\n" if code else "")


def test_the_headline_of_a_traceback_is_the_exception_that_came_last() -> None:
    log = (
        "Traceback (most recent call last):\n"
        + frame("k.py", 3, "run", "kernel()")
        + "KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n"
        + "Traceback (most recent call last):\n"
        + frame("k.py", 5, "run", "raise")
        + "ValueError: bad size\nprinted: nothing\n"
    )

    assert headline(log) == "ValueError: bad size"


def test_frames_of_harness_and_interpreter_are_left_out_and_the_whole_log_is_named() -> None:
    log = (
        "its process was ended by SIGSEGV\nFatal Python error: Segmentation fault\n\n"
        "Current thread 0x00007f (most recent call first):\n"
        f'  File "{OURS}", line 108 in time_ns\n'
        '  File "<frozen runpy>", line 88 in _run_code\n'
        "\nExtension modules: torch._C (total: 1)\n!!!!!!! Segfault encountered !!!!!!!\n"
        + frame("./nptl/pthread_kill.c", 44, "__pthread_kill_implementation")
        + frame("<unknown>", 0, "gelu(tvm::ffi::TensorView, tvm::ffi::TensorView)")
        + frame("Python/ceval.c", 5376, "_PyEval_EvalFrameDefault")
        + frame("<unknown>", 0, "0xffffffffffffffff")
    )

    assert log_lines(log, whole="/cache/k.log") == [
        "its process was ended by SIGSEGV",
        "Fatal Python error: Segmentation fault",
        "",
        "... 5 lines left out ...",
        "!!!!!!! Segfault encountered !!!!!!!",
        "... 1 line left out ...",
        '  File "<unknown>", line 0, in gelu(tvm::ffi::TensorView, tvm::ffi::TensorView)',
        "... 2 lines left out ...",
        "",
        "all 13 lines: /cache/k.log",
    ]


def test_a_long_log_keeps_the_exception_and_the_frames_of_the_user() -> None:
    log = (
        "Traceback (most recent call last):\n"
        + "".join(frame(LIBRARY, n, "compile", "self.compile()") for n in range(20))
        + frame("t_expp.py", 17, "run", "return make(8)(x)")
        + "AttributeError: module 'tilelang.language' has no attribute 'expp'\n"
        + "".join(f"    generated line {n}\n" for n in range(60))
    )

    shown = log_lines(log)

    assert len(shown) <= 34
    assert '  File "t_expp.py", line 17, in run' in shown
    assert "AttributeError: module 'tilelang.language' has no attribute 'expp'" in shown
    assert not any(LIBRARY in line for line in shown)


def test_a_short_log_is_shown_whole() -> None:
    assert log_lines("one\n  two", whole="/cache/k.log") == ["one", "  two"]


def test_what_tilelang_made_of_a_kernel_is_left_out() -> None:
    log = (
        'Traceback (most recent call last):\n  File "k.py", line 3, in kernel\nAttributeError: no expp\n'
        "2026-11-23 13:57:53  [TileLang:tilelang.builder:CRITICAL] (builder.py:1): Failed to build prim_func\n"
        "args={'x': x}\nsource=def make_closure(n):\n\n    def kernel(__tb):\n        return kernel\n"
        "the user's own line\n"
    )

    shown = log_lines(log)

    assert shown[-2:] == ["... 6 lines left out ...", "the user's own line"]
    assert "AttributeError: no expp" in shown


def test_the_headline_of_a_traceback_below_a_line_has_both() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "k.py", line 2, in run\nValueError: bad size\n'
    )

    assert headline(f"the judge failed:\n{trace}") == "the judge failed: ValueError: bad size"
    assert headline(f"ran into ValueError: bad size\n{trace}") == "ran into ValueError: bad size"
    assert headline(f"first\nsecond\n{trace}") == "first"
