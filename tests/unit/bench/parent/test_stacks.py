"""A printed stack becomes the solution's part of it."""

from __future__ import annotations

import flashinfer_bench
from flashinfer_bench.bench.parent.stacks import sources_of, where_it_was
from tests.flow.kernels import solution

FOLDER = f"/cache/processes/0/solutions/{'a' * 32}/python/fib_python_candidate_1"
OURS = f"{flashinfer_bench.__path__[0]}/bench/timing/wall.py"
SOURCE = "import time\n\ndef run(x):\n    time.sleep(9)\n"


def frame(file: str, line: int, function: str) -> str:
    return f'  File "{file}", line {line} in {function}\n'


def test_the_newest_frame_is_last_and_the_harness_is_left_out() -> None:
    printed = (
        "Current thread 0x00007f (most recent call first):\n"
        + frame("/usr/lib/python3.11/threading.py", 320, "wait")
        + frame(f"{FOLDER}/main.py", 4, "run")
        + frame(OURS, 88, "time_ns")
        + frame("/usr/lib/python3.11/runpy.py", 1, "main")
    )

    assert where_it_was(printed, sources_of(solution(SOURCE))) == (
        "\nit was here (the last call is the last line):\n"
        '  File "main.py", line 4, in run\n'
        "    time.sleep(9)\n"
        '  File "/usr/lib/python3.11/threading.py", line 320, in wait\n'
    )


def test_compiled_code_has_no_python_stack() -> None:
    said = where_it_was(frame(OURS, 88, "time_ns"), sources_of(solution(SOURCE)))

    assert said == "\nit was in compiled code, which no Python stack shows\n"


def test_a_process_that_printed_no_stack_is_not_explained() -> None:
    assert where_it_was("it printed this\n", sources_of(solution(SOURCE))) == ""
