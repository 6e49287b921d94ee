"""docs/validation.md lists every code, as the rules have it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

from flashinfer_bench.data import rules

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "validation.md"


def _generator() -> ModuleType:
    path = REPOSITORY / "docs" / "generate_validation.py"
    spec = importlib.util.spec_from_file_location("generate_validation", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_rules_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == _generator().render(), "run `make docs`"


def test_every_code_in_the_sources_has_its_line() -> None:
    sources = (REPOSITORY / "src").rglob("*.py")
    prefixes = "|".join(rules.finding.CATEGORY_BY_PREFIX)
    named = {
        code
        for path in sources
        for code in re.findall(rf'"((?:{prefixes})-\d\d)"', path.read_text(encoding="utf-8"))
    }

    listed = set(re.findall(r"^\| (\w{3}-\d\d) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))

    assert named == listed
    assert len(named) > 80


def test_no_code_is_given_twice_and_every_one_has_a_remedy() -> None:
    codes = _generator().codes()

    assert len({each.code for each in codes}) == len(codes)
    assert [each.code for each in codes if not (each.remedy and each.claim.endswith("."))] == []
