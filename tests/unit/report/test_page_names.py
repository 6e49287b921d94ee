from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashinfer_bench.report.page.names import slug


@pytest.mark.parametrize("name", ["rmsnorm_h4096", "a.b-c", "0", "gemm_n1024"])
def test_a_name_that_is_safe_stays_as_it_is(name: str) -> None:
    assert slug(name) == name


@given(st.text(min_size=1))
def test_any_name_becomes_one_safe_part_of_a_path(name: str) -> None:
    made = slug(name)

    assert re.fullmatch(r"[a-z0-9_][a-z0-9_.-]*", made)
    assert not made.endswith(".")
    assert len(made) <= 80


@given(st.lists(st.text(alphabet="aA.-/ <é", min_size=1, max_size=4), min_size=2, unique=True))
def test_two_names_never_share_a_page(names: list[str]) -> None:
    assert len({slug(name) for name in names}) == len(names)


def test_a_name_made_to_look_like_anothers_page_gets_one_of_its_own() -> None:
    assert slug(slug("A")) != slug("A")


@pytest.mark.parametrize("name", ["con", "NUL", "com1.py", "lpt9", "aux.x"])
def test_names_of_devices_are_no_file_names(name: str) -> None:
    assert slug(name).partition(".")[0] not in {"con", "nul", "com1", "lpt9", "aux"}


def test_pages_keep_their_names_from_one_version_to_the_next() -> None:
    assert slug("meta-llama/Llama-3.1-8B") == "meta-llama-llama-3.1-8b-ac8584a01edb6d10"
    assert slug(string.punctuation) == "_-49f951942e099623"
