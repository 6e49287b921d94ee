from __future__ import annotations

from flashinfer_bench.text.tables import (
    Column,
    columns_of,
    first_line,
    fitted,
    heading,
    page_text,
    paragraph,
    printable,
    table,
)

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


def test_wide_characters_keep_columns_straight() -> None:
    block = table([NAME, REMARK], [("規範化", "x"), ("e\u0301", "y")])

    assert {columns_of(line) for line in block.text.splitlines()[1:]} == {2 + 6 + 2 + 1}


def test_what_stands_in_headings_and_paragraphs_cannot_drive_the_terminal_either() -> None:
    page = (heading("on \x1b[2JGPU"), paragraph("  a\x1b[31m", "b\n\u202ec"))

    assert page_text(page) == "on GPU\n  a\n  b\n  c"


def test_a_table_too_wide_for_the_screen_becomes_a_list() -> None:
    page = (table([NAME, COUNT, REMARK], [("a" * 20, "1", "yes"), ("b", "2", "")]),)

    assert page_text(fitted(page, 28)).splitlines() == [
        f"  name {'a' * 20}",
        "    count   1",
        "    remark  yes",
        "  name b",
        "    count   2",
    ]
    assert fitted(page, 80) == page


def test_long_lines_are_wrapped_between_words() -> None:
    page = (paragraph("one two three", "ok"),)

    assert page_text(fitted(page, 10)).splitlines() == ["  one two", "    three", "  ok"]
