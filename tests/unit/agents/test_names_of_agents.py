"""What agents of the existing system call answers as they expect, its faults aside."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import Literal

import pytest

from flashinfer_bench import FFI_PROMPT
from flashinfer_bench.agents import (
    FFI_PROMPT_SIMPLE,
    extract_solution_to_files,
    flashinfer_bench_list_ncu_options,
    flashinfer_bench_run_ncu,
    flashinfer_bench_run_sanitizer,
    function_to_schema,
    get_all_tool_schemas,
    pack_solution_from_files,
)
from flashinfer_bench.data import Solution, SourceFile, Workload
from tests.flow.kernels import HONEST, solution, write_dataset

WORKLOAD = Workload(axes={"n": 4}, inputs={"x": {"type": "random"}})


def program(folder: Path, body: str) -> str:
    """A stand-in for a tool of NVIDIA, which no machine without a card has."""
    file = folder / "tool"
    file.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def test_extracting_and_packing_are_inverses_with_folders_too(tmp_path: Path) -> None:
    source = SourceFile(path="parts/more.py", content="ONE = 1\n")
    made = solution(HONEST).model_copy(update={"sources": [*solution(HONEST).sources, source]})

    folder = extract_solution_to_files(made, tmp_path)
    back = pack_solution_from_files(folder, made.spec, "candidate", "increment", "tester")

    assert Path(folder) == tmp_path / "candidate"
    assert "* `parts/more.py`" in (Path(folder) / "SOLUTION.md").read_text()
    assert back.hash() == made.hash()
    assert {each.path for each in back.sources} == {"main.py", "parts/more.py"}


def test_folders_that_cannot_be_are_value_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no folder"):
        extract_solution_to_files(solution(HONEST), tmp_path / "none")
    with pytest.raises(ValueError, match="is no name of a folder"):
        extract_solution_to_files(solution(HONEST, name="../out"), tmp_path)
    with pytest.raises(ValueError, match="has no source file"):
        pack_solution_from_files(tmp_path, solution(HONEST).spec, "a", "b", "c")


def test_a_function_is_described_by_its_annotations_and_docstring() -> None:
    def tool(first: Solution | str, kind: Literal["a", "b"] = "a", most: int | None = None) -> str:
        """Do something.

        Parameters
        ----------
        first : Solution | str
            What to
            look at.
        most : int | None
            How many.

        Returns
        -------
        str
            A text.
        """
        return f"{first}{kind}{most}"

    schema = function_to_schema(tool)

    properties = schema["parameters"]["properties"]
    assert (schema["name"], schema["description"]) == ("tool", "Do something.")
    assert [each.get("title", each.get("type")) for each in properties["first"]["anyOf"]] == [
        "Solution",
        "string",
    ]
    assert properties["first"]["description"] == "What to look at."
    assert properties["kind"] == {"type": "string", "enum": ["a", "b"], "default": "a"}
    assert properties["most"] == {"type": "integer", "description": "How many."}
    assert schema["parameters"]["required"] == ["first"]


def test_the_three_tools_are_described() -> None:
    schemas = get_all_tool_schemas()

    assert [each["name"].rpartition("_bench_")[2] for each in schemas] == [
        "list_ncu_options",
        "run_ncu",
        "run_sanitizer",
    ]
    assert schemas[1]["parameters"]["required"] == ["solution", "workload"]
    assert all(
        each.get("description")
        for schema in schemas
        for each in schema["parameters"]["properties"].values()
    )


def test_what_is_missing_or_wrong_is_a_text(tmp_path: Path) -> None:
    write_dataset(tmp_path / "dataset")
    tool = program(tmp_path, "print('never')")
    given = {"trace_set_path": str(tmp_path / "dataset"), "ncu_path": tool}
    elsewhere = solution(HONEST, definition="decrement")

    answers = [
        flashinfer_bench_list_ncu_options("/no/such/ncu"),
        flashinfer_bench_run_ncu(solution(HONEST), WORKLOAD, page="all", **given),  # type: ignore[arg-type]
        flashinfer_bench_run_ncu(str(tmp_path / "none.json"), WORKLOAD, **given),  # type: ignore[arg-type]
        flashinfer_bench_run_ncu(elsewhere, WORKLOAD, **given),  # type: ignore[arg-type]
        flashinfer_bench_run_sanitizer(solution(HONEST), WORKLOAD, sanitizer_path="/no/such"),
    ]

    assert [each[:7] for each in answers] == ["ERROR: "] * 5
    assert "the dataset has increment" in answers[3]


def test_ncu_is_asked_for_the_marked_call_and_its_lines_are_counted(tmp_path: Path) -> None:
    write_dataset(tmp_path / "dataset")
    tool = program(tmp_path, "print(*sys.argv[1:], sep='\\n')")

    said = flashinfer_bench_run_ncu(
        solution(HONEST),
        WORKLOAD,
        trace_set_path=str(tmp_path / "dataset"),
        ncu_path=tool,
        sections=["SpeedOfLight"],
        max_lines=8,
    )

    words = said.splitlines()
    assert words[:4] == ["--page", "details", "--set", "detailed"]
    assert words[6] == "flashinfer_bench_ncu_profile/"
    assert "lines left out" in words[8]


@pytest.mark.parametrize(
    ("code", "verdict"), [(0, "PASSED"), (86, "it found errors"), (1, "NO VERDICT")]
)
def test_a_sanitizers_verdict_is_its_own(tmp_path: Path, code: int, verdict: str) -> None:
    write_dataset(tmp_path / "dataset")
    tool = program(tmp_path, f"sys.exit({code})")

    said = flashinfer_bench_run_sanitizer(
        solution(HONEST),
        WORKLOAD,
        trace_set_path=str(tmp_path / "dataset"),
        sanitizer_path=tool,
        sanitizer_types=["racecheck"],
    )

    assert verdict in said
    assert said.startswith("=== racecheck ===")


def test_the_prompts_teach_the_binding() -> None:
    assert "TVM_FFI_DLL_EXPORT_TYPED_FUNC" in FFI_PROMPT_SIMPLE
    assert FFI_PROMPT_SIMPLE.splitlines()[0] in FFI_PROMPT
    assert len(FFI_PROMPT_SIMPLE) < len(FFI_PROMPT)
