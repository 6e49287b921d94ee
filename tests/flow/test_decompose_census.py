"""A census by the real processes: few architectures always, sixty in the long run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import call

pytest.importorskip("transformers", reason="its architectures are counted")
pytest.importorskip("torch")

FEW = ("vit", "gemma4_assistant")  # which the library itself cannot make
SIXTY = """
    albert arcee bart bert biogpt blip cohere convbert convnext ctrl deberta deit dinov2 distilbert electra
    ernie falcon fnet focalnet gemma gemma2 git glm gpt2 gpt_neox granite helium hiera ibert imagegpt led levit llama
    longt5 m2m_100 marian mbart mixtral mobilebert mpnet mpt mra nystromformer olmo opt pegasus phi plbart
    poolformer qwen2 qwen3 rembert resnet roberta roformer siglip stablelm swin t5 whisper
""".split()  # noqa: SIM905  # as one reads them


def census(output: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    done = call("decompose", "census", "transformers", "--output", output, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["census"]
    return found, done.stderr


def test_a_census_names_what_it_counts_and_goes_on_where_it_was(tmp_path: Path) -> None:
    report, _ = census(tmp_path, "--only", FEW[0])
    table = (tmp_path / "census.jsonl").read_bytes()
    (vit,) = report["rows"]

    assert (vit["status"], vit["model"], vit["equality"]) == ("verified", "ViTModel", "bit-equal")
    assert report["registered"] > 300
    assert json.loads(table.splitlines()[0])["registered"] == report["registered"]
    assert b"seconds" not in table
    assert (tmp_path / "models" / "vit.py").is_file()
    assert "architectures tried" in (tmp_path / "census.md").read_text()

    again, said = census(tmp_path, "--only", *FEW, "--resume")

    assert again["resumed"] == 1
    assert "vit" not in said
    assert [row["status"] for row in again["rows"]] == ["failed", "verified"]
    assert again["rows"][0]["reason"]
    assert (tmp_path / "census.jsonl").read_bytes().splitlines()[-1] == table.splitlines()[-1]


def test_an_unknown_architecture_is_a_usage_error(tmp_path: Path) -> None:
    done = call("decompose", "census", "transformers", "--only", "no_such", "--output", tmp_path)

    assert done.returncode == 2
    assert "no architecture of transformers" in done.stderr
    assert "no_such" in done.stderr


@pytest.mark.full
def test_sixty_architectures_are_verified_and_the_table_is_the_same_twice(tmp_path: Path) -> None:
    report, _ = census(tmp_path / "one", "--only", *SIXTY)
    census(tmp_path / "two", "--only", *SIXTY)

    assert len(report["rows"]) == len(SIXTY) == 60
    assert {
        row["architecture"]: row["reason"] for row in report["rows"] if row["status"] == "failed"
    } == {}
    one, two = ((tmp_path / each / "census.jsonl").read_bytes() for each in ("one", "two"))
    assert one == two
