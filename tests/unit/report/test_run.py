"""What a run says of a dataset that is at fault."""

from __future__ import annotations

from flashinfer_bench.report.run import Fault, RunReport, fault_blocks, faults_line, run_page
from flashinfer_bench.text.tables import page_text

EXPLANATION = """\
the reference raised
Traceback (most recent call last):
  File "/x/site-packages/flashinfer_bench/bench/judge/oracle.py", line 187, in run
    result = self._reference(*own)
             ^^^^^^^^^^^^^^^^^^^^^
  File "d1.reference", line 2, in run
    return x + y
NameError: name 'y' is not defined
"""
FAULT = Fault("d1", "w1", EXPLANATION)


def test_a_fault_of_the_dataset_shows_no_frames_of_the_harness() -> None:
    said = page_text(fault_blocks([FAULT]))

    assert "oracle.py" not in said
    assert "  d1 [w1]: the reference raised\n" in said
    assert '    File "d1.reference", line 2, in run\n' in said
    assert "  NameError: name 'y' is not defined" in said


def test_one_line_says_how_the_dataset_is_at_fault() -> None:
    line = (
        "the dataset is at fault: d1 [w1]: the reference raised: NameError: name 'y' is not defined"
    )

    assert faults_line([FAULT]) == line
    assert faults_line([FAULT, Fault("d2", "w2", "no such file")]) == f"{line} (1 more)"


def test_a_resume_with_nothing_left_names_what_failed_before_and_how_to_see_and_redo_it() -> None:
    counts = {f"kernel_{number}": 1 for number in range(6)} | {"kernel_0": 2}
    report = RunReport(
        jobs=(),
        solutions=(),
        skipped=(),
        dataset_faults=(),
        planned=0,
        done_before=9,
        elapsed_s=1.0,
        is_complete=True,
        saved_to=(),
        next_command=None,
        failed_before=7,
        failed_before_by_solution=counts,
    )

    said = page_text(run_page(report, lists_failures=True))

    assert "7 recorded failures stand: kernel_0 (2 workloads), kernel_1 (1 workload)," in said
    assert "and 1 more\n" in said
    assert "`show SOLUTION` lists its traces; --retry-failed runs what failed again" in said
