"""The instructions for whoever decomposes by hand say what the verifier does."""

import re
import runpy
from pathlib import Path

import pytest

from flashinfer_bench.decompose.verify.rules import RULES, RUNGS

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "prompts/VERIFICATION_GUIDE.md").read_text()
PROMPT = (ROOT / "prompts/MAIN_PROMPT.md").read_text()


@pytest.mark.parametrize("code", RULES)
def test_the_guide_has_each_rule_as_it_is(code: str) -> None:
    rule = RULES[code]

    assert f"| `{code}` | {rule.claim} | {rule.remedy} |" in GUIDE


def test_the_guide_names_no_rule_that_is_not_there() -> None:
    named = set(re.findall(r"^\| `([A-Z]+-\w+)`", GUIDE, flags=re.MULTILINE))

    assert named == set(RULES)


def test_the_guide_explains_each_rung_in_order() -> None:
    rungs = re.findall(r"^\| ([a-z]+) \|", GUIDE, flags=re.MULTILINE)

    assert tuple(each for each in rungs if each in RUNGS) == RUNGS


def test_the_example_of_a_file_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PROMPT, flags=re.DOTALL)
    path = tmp_path / "gelu_64.py"
    path.write_text(block)

    runpy.run_path(str(path), run_name="__main__")

    assert capsys.readouterr().out == "PASS\n"


@pytest.mark.parametrize(
    "path", re.findall(r"`((?:docs|prompts|tests)/[\w./]+)`", PROMPT), ids=lambda path: path
)
def test_what_the_instructions_point_to_is_there(path: str) -> None:
    assert (ROOT / path).exists()
