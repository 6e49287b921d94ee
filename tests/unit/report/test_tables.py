from __future__ import annotations

from flashinfer_bench.report.tables import Column, first_line, printable, table

NAME, COUNT, REMARK = Column("name"), Column("count", is_number=True), Column("remark")


def test_numbers_go_to_the_right_and_names_to_the_left() -> None:
    block = table([NAME, COUNT], [("a", "10"), ("longer", "7")])

    assert block.text.splitlines() == [
        "  name    count",
        "  a          10",
        "  longer      7",
    ]


def test_a_column_without_content_is_left_out() -> None:
    block = table([NAME, REMARK], [("a", ""), ("b", "")])

    assert "remark" not in block.text


def test_lines_carry_no_trailing_blanks() -> None:
    block = table([NAME, REMARK], [("a", "x"), ("b", "")])

    assert all(line == line.rstrip() for line in block.text.splitlines())


def test_other_peoples_text_cannot_drive_the_terminal() -> None:
    hostile = "\x1b[2J\x1b]0;title\x07na\rme\u202e\n\x1b[31m!"

    assert printable(hostile) == "na me !"


def test_the_first_line_that_says_something_is_cut() -> None:
    assert first_line("\n\n  " + "x" * 50 + "\nmore", limit=10) == "x" * 9 + "…"
