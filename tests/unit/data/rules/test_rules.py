"""Every rule fires on what it is for, and on nothing else; a bad dataset never ends the check."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.data import rules
from tests.unit.data.rules.datasets import (
    ALICE,
    BLOB,
    DEFINITION,
    NAME,
    PROFILE,
    TRACES,
    WORKLOADS,
    Dataset,
    safetensors,
)

BUNDLED = Path(__file__).parents[4] / "examples" / "dataset"
BASELINE = f"solutions/baseline/reduce/{NAME}/rowsum_baseline.json"
BASELINE_TRACES = f"traces/baseline/reduce/{NAME}.jsonl"
TOML = f"{ALICE}/solution.toml"
LINE = 1
STORED_LINE = 2


def _replaced(relative: str, old: str, new: str) -> Callable[[Dataset], None]:
    """Put one text for another in a file; the text must be there."""

    def change(dataset: Dataset) -> None:
        text = dataset.read(relative)
        assert old in text
        dataset.write(relative, text.replace(old, new))

    return change


def _in_definition(change: Callable[[dict[str, Any]], object]) -> Callable[[Dataset], None]:
    return lambda dataset: dataset.edit(DEFINITION, change)


def _in_workload(
    change: Callable[[dict[str, Any]], object], line: int = LINE
) -> Callable[[Dataset], None]:
    return lambda dataset: dataset.edit_line(
        WORKLOADS, line, lambda whole: change(whole["workload"])
    )


def _in_line(
    relative: str, change: Callable[[dict[str, Any]], object]
) -> Callable[[Dataset], None]:
    return lambda dataset: dataset.edit_line(relative, LINE, change)


def _moved(source: str, target: str) -> Callable[[Dataset], None]:
    return lambda dataset: dataset.move(source, target)


def _added(relative: str, content: str | bytes) -> Callable[[Dataset], None]:
    return lambda dataset: dataset.write(relative, content)


def _appended(relative: str, text: str) -> Callable[[Dataset], None]:
    return lambda dataset: dataset.write(relative, dataset.read(relative) + text)


def _renamed_copy(dataset: Dataset) -> None:
    """Write two long solutions that differ in a constant and in the names of variables."""
    lines = [f"    total = torch.add(total, x[:, {column}] * alpha)" for column in range(60)]
    source = "\n".join(
        ["import torch", "def run(x, alpha):", "    total = 0", *lines, "    return total\n"]
    )
    whole = json.loads(dataset.read(BASELINE))
    for name, content in (
        ("first", source),
        ("second", source.replace("total", "sum_").replace("= 0", "= 0.0")),
    ):
        sources = [{"path": "main.py", "content": content}]
        solution = whole | {"name": name, "author": "bob", "sources": sources}
        dataset.write(f"solutions/bob/reduce/{NAME}/{name}.json", json.dumps(solution))


def _copied(source: str, target: str) -> Callable[[Dataset], None]:
    return lambda dataset: dataset.write(target, dataset.path(source).read_bytes())


def _removed(*relatives: str) -> Callable[[Dataset], None]:
    def change(dataset: Dataset) -> None:
        for relative in relatives:
            dataset.path(relative).unlink()

    return change


def _second_definition(**changes: Any) -> Callable[[Dataset], None]:
    def change(dataset: Dataset) -> None:
        definition = json.loads(dataset.read(DEFINITION)) | {"name": "other"} | changes
        dataset.write("definitions/reduce/other.json", json.dumps(definition))

    return change


def _with_indices(dataset: Dataset, name: str, source: dict[str, Any]) -> None:
    """Add an input of integers to the definition and all its workloads."""
    spec = {"shape": ["rows"], "dtype": "int32", "description": "?"}
    dataset.edit(DEFINITION, lambda definition: definition["inputs"].update({name: spec}))
    for number in (1, 2):
        change = {name: source}
        dataset.edit_line(
            WORKLOADS, number, lambda line, new=change: line["workload"]["inputs"].update(new)
        )


CASES: dict[str, Callable[[Dataset], None]] = {
    "LAY-01": _copied(DEFINITION, "definitions/reduce/copy.json"),
    "LAY-02": _moved(DEFINITION, "definitions/reduce/rowsum.json"),
    "LAY-03": _moved(DEFINITION, f"definitions/sums/{NAME}.json"),
    "LAY-04": _moved(WORKLOADS, f"workloads/sums/{NAME}.jsonl"),
    "LAY-05": _in_line(WORKLOADS, lambda line: line.update(definition="other")),
    "LAY-06": _replaced(TOML, 'author = "alice"', 'author = "bob"'),
    "LAY-07": _replaced(TOML, f'definition = "{NAME}"', 'definition = "other"'),
    "LAY-08": _moved(ALICE, f"solutions/alice/reduce/{NAME}/rowsum"),
    "LAY-09": _moved(ALICE, f"solutions/alice/sums/{NAME}/alice_rowsum"),
    "LAY-10": _moved(TRACES, f"traces/alice/sums/{NAME}.jsonl"),
    "LAY-11": _in_line(TRACES, lambda line: line.update(definition="other")),
    "LAY-13": _moved(WORKLOADS, f"workloads/{NAME}.jsonl"),
    "LAY-14": _added("definitions/reduce/notes.txt", "to do\n"),
    "LAY-15": _moved(TRACES, f"traces/bob/reduce/{NAME}.jsonl"),
    "LAY-16": _in_definition(lambda definition: definition.update(op_type="a/b")),
    "LAY-17": _appended(WORKLOADS, '{"definition": "sca'),
    "LAY-18": lambda dataset: dataset.write(WORKLOADS, dataset.read(WORKLOADS).rstrip("\n")),
    "LAY-19": _added("blob/workloads/reduce/left_over.safetensors", b""),
    "LAY-20": _removed(DEFINITION),
    "LAY-21": lambda dataset: dataset.path(f"traces/alice/reduce/{NAME}_2.jsonl").symlink_to(
        "gone"
    ),
    "LAY-22": lambda dataset: dataset.path("definitions/reduce/out.json").symlink_to("/etc/hosts"),
    "LAY-23": lambda dataset: dataset.path("solutions/again").symlink_to("alice"),
    "DEF-01": _replaced(DEFINITION, '"bfloat16"', '"bflot16"'),
    "DEF-02": _in_definition(lambda definition: definition.pop("description")),
    "DEF-03": _in_definition(lambda definition: definition["axes"]["N"].pop("description")),
    "DEF-04": _in_definition(lambda definition: definition["inputs"]["x"].pop("description")),
    "DEF-05": _in_definition(lambda definition: definition["outputs"]["y"].pop("description")),
    "DEF-07": _in_definition(lambda definition: definition["inputs"]["x"].update(optionl=True)),
    "DEF-08": _second_definition(description="The same in other words."),
    "DEF-09": _in_definition(lambda definition: definition["constraints"].append("rows == x[-1]")),
    "DEF-10": _in_definition(
        lambda definition: definition["axes"].update(loose={"type": "var", "description": "?"})
    ),
    "DEF-11": _in_definition(
        lambda definition: definition["axes"].update(
            M={"type": "const", "value": 3, "description": "?"}
        )
    ),
    "DEF-12": _in_definition(lambda definition: definition["axes"]["rows"].pop("type")),
    "DEF-13": _in_definition(lambda definition: definition.update(op_type="rmsnrom")),
    "DEF-14": _in_definition(
        lambda definition: definition.update(reference="def run(x):\n    return x.sum(-1)\n")
    ),
    "DEF-15": _in_definition(
        lambda definition: definition.update(reference="def run(alpha, x):\n    return x.sum(-1)\n")
    ),
    "WKL-01": _removed(WORKLOADS),
    "WKL-02": _in_workload(lambda workload: workload.update(axes=[])),
    "WKL-03": _replaced(DEFINITION, '"bfloat16"', '"bflot16"'),
    "WKL-04": lambda dataset: dataset.write(
        WORKLOADS, dataset.read(WORKLOADS) + dataset.read(TRACES)
    ),
    "WKL-05": _in_workload(lambda workload: workload["axes"].pop("rows")),
    "WKL-06": _in_workload(lambda workload: workload["axes"].update(row=3)),
    "WKL-07": _in_workload(lambda workload: workload["axes"].update(rows=0)),
    "WKL-08": _in_workload(lambda workload: workload["inputs"].pop("x")),
    "WKL-09": _in_workload(lambda workload: workload["inputs"].update(y={"type": "random"})),
    "WKL-10": _in_definition(
        lambda definition: definition["axes"].update(
            half={"type": "expr", "expression": "rows / 256", "description": "?"}
        )
    ),
    "WKL-11": _in_workload(
        lambda workload: workload["inputs"].update(x={"type": "scalar", "value": 1})
    ),
    "WKL-12": _in_workload(lambda workload: workload["inputs"].update(alpha={"type": "random"})),
    "WKL-13": _in_workload(
        lambda workload: workload["inputs"].update(alpha=dict(workload["inputs"]["x"])),
        STORED_LINE,
    ),
    "WKL-14": _removed(BLOB),
    "WKL-15": _added(BLOB, safetensors({"y": ("BF16", [4, 256], 2048)})),
    "WKL-16": _added(BLOB, safetensors({"x": ("BF16", [8, 256], 4096)})),
    "WKL-17": _added(BLOB, safetensors({"x": ("BF16", [4, 256], 2048)})[:-1]),
    "WKL-19": _in_workload(lambda workload: workload.update(seed=1)),
    "WKL-20": lambda dataset: dataset.write(
        WORKLOADS, dataset.read(WORKLOADS) + dataset.lines(WORKLOADS)[0] + "\n"
    ),
    "WKL-21": _in_line(WORKLOADS, lambda line: line.update(definition="scaled_rowsun_n256")),
    "WKL-22": _in_workload(lambda workload: workload["axes"].update(N=128)),
    "WKL-23": _added(BLOB, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
    "WKL-24": _added(BLOB, safetensors({"x": ("F16", [4, 256], 2048)})),
    "WKL-25": _in_definition(lambda definition: definition["constraints"].append("rows % 8 == 0")),
    "WKL-32": _in_definition(lambda definition: definition.update(min_bytes="rows - 5")),
    "WKL-33": _in_workload(lambda workload: workload["axes"].update(rows=4)),
    "WKL-26": _in_workload(lambda workload: workload.pop("uuid")),
    "WKL-28": _in_workload(lambda workload: workload["inputs"].update(x={})),
    "WKL-29": _in_workload(lambda workload: workload["inputs"]["alpha"].update(value=True)),
    "WKL-30": _in_workload(
        lambda workload: workload["inputs"]["x"].update(distribution={"type": "permutation"})
    ),
    "WKL-31": lambda dataset: _with_indices(dataset, "kv_indices", {"type": "random"}),
    "SOL-01": _second_definition(reference="def run(x, alpha):\n    return x.amax(-1)\n"),
    "SOL-02": _replaced(TOML, "[build]", "[built]"),
    "SOL-07": _replaced(TOML, f'definition = "{NAME}"', 'definition = "scaled_rowsum_n25"'),
    "SOL-08": lambda dataset: dataset.edit(BASELINE, lambda solution: solution.update(licence="x")),
    "SOL-09": lambda dataset: dataset.edit(
        BASELINE, lambda solution: solution.update(name="alice_rowsum")
    ),
    "SOL-10": lambda dataset: dataset.write(
        f"{ALICE}/main.py", json.loads(dataset.read(BASELINE))["sources"][0]["content"]
    ),
    "SOL-11": _added(f"{ALICE}/main.py", "def run(x, alpha:\n"),
    "SOL-12": _added(f"{ALICE}/main.py", "def run(x):\n    return x.sum(-1)\n"),
    "SOL-13": _added(f"{ALICE}/kernel.so", b"\x7fELF\x00\xff"),
    "WKL-34": _in_workload(lambda workload: workload["inputs"].update(x={"type": "custom"})),
    "SOL-14": _replaced(TOML, "dependencies = []", 'dependencies = ["no such package"]'),
    "SOL-15": _replaced(
        TOML,
        'language = "python"\n',
        'language = "cuda"\ncompile_options = {cuda_cflags = ["-arch=sm_90"]}\n',
    ),
    "SOL-16": _renamed_copy,
    "TRC-01": _second_definition(reference="def run(x, alpha):\n    return x.amax(-1)\n"),
    "TRC-02": _appended(TRACES, '{"definition": 3}\n'),
    "TRC-04": _in_line(TRACES, lambda line: line.update(evaluation=None)),
    "TRC-05": _in_line(TRACES, lambda line: line.update(solution="alice_rowsun")),
    "TRC-06": lambda dataset: dataset.write(TRACES, dataset.lines(TRACES)[0] + "\n"),
    "TRC-07": _in_line(TRACES, lambda line: line.update(definition="other")),
    "TRC-08": _in_line(TRACES, lambda line: line["evaluation"].update(mood="good")),
    "TRC-09": _in_line(TRACES, lambda line: line["workload"].update(uuid="gone")),
    "TRC-10": _added(f"{ALICE}/main.py", "def run(x, alpha):\n    return (alpha * x).sum(-1)\n"),
    "TRC-11": lambda dataset: dataset.write(TRACES, dataset.read(TRACES) * 2),
    "BAS-01": lambda dataset: dataset.path(BASELINE).unlink(),
    "BAS-04": _removed(BASELINE_TRACES),
    "BAS-07": _in_line(
        BASELINE_TRACES,
        lambda line: line["evaluation"].update(
            status="RUNTIME_ERROR", correctness=None, performance=None
        ),
    ),
    "BAS-08": lambda dataset: dataset.write(
        BASELINE_TRACES, dataset.lines(BASELINE_TRACES)[0] + "\n"
    ),
    "BAS-09": _replaced(TOML, 'author = "alice"', 'author = "baseline"'),
    "PRO-01": _added(PROFILE, '{"model": "m"'),
    "PRO-02": _appended(PROFILE, "// by hand\n"),
    "PRO-03": _replaced(PROFILE, NAME, "scaled_rowsum"),
    "PRO-04": _replaced(PROFILE, '"rows"', '"row"'),
    "PRO-05": lambda dataset: dataset.edit(PROFILE, lambda profile: profile.update(author="me")),
}


def test_there_is_nothing_to_say_about_a_good_dataset(good: Dataset) -> None:
    assert good.findings() == []


@pytest.mark.parametrize("code", CASES)
def test_a_rule_fires_on_what_it_is_for(good: Dataset, code: str) -> None:
    CASES[code](good)

    found = [finding for finding in good.findings() if finding.code == code]

    assert found
    assert all(finding.remedy for finding in found)
    assert all(finding.path or finding.definition for finding in found)


def test_every_rule_has_a_case_and_a_code_of_its_own() -> None:
    codes = [rule.code for rule in rules.RULES]

    assert sorted(codes) == sorted(set(codes))
    assert set(codes) == CASES.keys()


def test_every_rule_makes_a_claim() -> None:
    assert [rule.code for rule in rules.RULES if not rule.claim.endswith(".")] == []


def test_the_bundled_dataset_has_neither_errors_nor_warnings() -> None:
    found = rules.check(rules.take(BUNDLED))

    assert [finding for finding in found if finding.level != rules.Level.INFO] == []


@pytest.mark.parametrize(
    ("code", "path", "line", "message"),
    [
        ("DEF-01", DEFINITION, 29, "Definition.inputs.x.dtype: must be"),
        ("WKL-02", WORKLOADS, 1, "Trace.workload.axes: must be"),
        ("WKL-06", WORKLOADS, 1, "has no axis 'row'; did you mean 'rows'?"),
        ("WKL-07", WORKLOADS, 1, "an axis of length 0 in 1 of 2 workloads"),
        ("WKL-14", WORKLOADS, 2, "input 'x': no file './blob/"),
        ("WKL-15", WORKLOADS, 2, "holds no tensor 'x'; it holds 'y'"),
        ("WKL-16", WORKLOADS, 2, "input 'x' is [4, 256], the tensor [8, 256]"),
        ("WKL-17", WORKLOADS, 2, "bytes, where"),
        ("WKL-20", WORKLOADS, 3, f"is that of {WORKLOADS}:1"),
        ("WKL-21", WORKLOADS, 1, f"did you mean '{NAME}'?"),
        ("WKL-24", WORKLOADS, 2, "input 'x' is bfloat16, the tensor float16"),
        ("WKL-25", WORKLOADS, 2, "rows=4 violates 'rows % 8 == 0'"),
        ("WKL-32", WORKLOADS, 2, "min_bytes is -1 with rows=4"),
        ("TRC-02", TRACES, 3, "Trace.definition: must be a string"),
        ("TRC-05", TRACES, 1, "did you mean 'alice_rowsum'?"),
        ("LAY-17", WORKLOADS, 3, "was cut short"),
        ("SOL-12", ALICE, None, "does not take 2 arguments: 'x', 'alpha'"),
        ("DEF-09", DEFINITION, None, "constraint 'rows == x[-1]' cannot be evaluated"),
        ("DEF-13", DEFINITION, None, "did you mean 'rmsnorm'?"),
    ],
)
def test_a_finding_names_place_and_fault(
    good: Dataset, code: str, path: str, line: int | None, message: str
) -> None:
    CASES[code](good)
    (finding,) = [finding for finding in good.findings() if finding.code == code]

    assert (finding.path, finding.line) == (path, line)
    assert message in finding.message


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("qo_indptr", "index_pointers"),
        ("cu_seqlens_q", "index_pointers"),
        ("page_table", "page_table"),
        ("block_tables", "page_table"),
        ("kv_indices", "integers"),
        ("token_ids", "integers"),
    ],
)
def test_the_remedy_for_random_indices_is_what_their_name_says(
    good: Dataset, name: str, remedy: str
) -> None:
    _with_indices(good, name, {"type": "random"})

    (found, _) = [finding for finding in good.findings() if finding.code == "WKL-31"]

    assert f'"distribution": {{"type": "{remedy}"' in found.remedy


@pytest.mark.parametrize(
    ("name", "axis", "constraint"),
    [
        ("qo_indptr", "total_q", None),
        ("kv_indptr", "used", "used == kv_indptr[-1].item()"),
        ("kv_indices", "num_pages", None),
        ("seq_lens", "max_seq_len", None),
        ("positions", "max_seq_len", None),
    ],
)
def test_the_remedy_names_the_axis_that_limits_an_index(
    good: Dataset, name: str, axis: str, constraint: str | None
) -> None:
    _with_indices(good, name, {"type": "random"})
    new = {axis: {"type": "const", "value": 64, "description": "?"}}
    good.edit(DEFINITION, lambda definition: definition["axes"].update(new))
    if constraint:
        good.edit(DEFINITION, lambda definition: definition["constraints"].append(constraint))

    found = [finding for finding in good.findings() if finding.code == "WKL-31"]

    assert f'"{axis}"}}' in found[0].remedy


def test_no_distribution_is_named_for_numbers_that_hold_several(good: Dataset) -> None:
    _with_indices(good, "topk_ids", {"type": "random"})
    said = "Packed routing: bits[31:16] = expert, bits[15:0] = weight."
    good.edit(DEFINITION, lambda read: read["inputs"]["topk_ids"].update(description=said))

    found = [finding for finding in good.findings() if finding.code == "WKL-31"]

    assert found[0].remedy == (
        "store its values in a file: its description says that they are packed"
    )


def test_missing_files_are_one_line_for_each_file_of_workloads(good: Dataset) -> None:
    stored = json.loads(good.lines(WORKLOADS)[1])
    stored["workload"]["uuid"] = "another"
    stored["workload"]["inputs"]["x"]["path"] = "blob/other.safetensors"
    good.write(WORKLOADS, good.read(WORKLOADS) + json.dumps(stored) + "\n")
    good.path(BLOB).unlink()

    (found,) = [finding for finding in good.findings() if finding.code == "WKL-14"]

    assert found.message.endswith(", and 1 more file of its workloads")


def test_a_dataset_without_solutions_and_traces_is_told_once(good: Dataset) -> None:
    _second_definition(reference="def run(x, alpha):\n    return x.amax(-1)\n")(good)
    for folder in ("solutions", "traces"):
        shutil.rmtree(good.path(folder))

    found = [each for each in good.findings() if each.code in {"SOL-01", "TRC-01"}]

    assert [each.message for each in found] == [
        "no solutions of any definition",
        "no traces of any definition",
    ]


def test_optional_inputs_need_no_source_and_an_axis_of_the_reference_is_used(good: Dataset) -> None:
    good.edit(DEFINITION, lambda definition: definition["inputs"]["alpha"].update(optional=True))
    new = {"M": {"type": "const", "value": 3, "description": "?"}}
    good.edit(DEFINITION, lambda definition: definition["axes"].update(new))
    source = "def run(x, alpha=None):\n    M = 3\n    return x.sum(-1) * M\n"
    good.edit(DEFINITION, lambda definition: definition.update(reference=source))
    good.edit_line(WORKLOADS, 1, lambda line: line["workload"]["inputs"].pop("alpha"))

    assert not good.codes() & {"WKL-08", "DEF-07", "DEF-11"}


def test_constraints_over_shapes_are_evaluated(good: Dataset) -> None:
    texts = ["x.shape[-1] == 256", "y.shape[0] > 4"]
    good.edit(DEFINITION, lambda definition: definition["constraints"].extend(texts))

    found = [finding for finding in good.findings() if finding.code in {"DEF-09", "WKL-25"}]

    assert [finding.message for finding in found] == ["rows=4 violates 'y.shape[0] > 4'"]


def test_indices_with_a_distribution_are_fine(good: Dataset) -> None:
    distribution = {"type": "index_pointers", "total": "4 * rows", "shortest": 0}

    _with_indices(good, "kv_indptr", {"type": "random", "distribution": distribution})

    assert not good.codes() & {"WKL-30", "WKL-31"}


@pytest.mark.parametrize(
    ("distribution", "said"),
    [
        ({"type": "page_table", "pages": "row"}, "pages uses unknown axis 'row' (axes: N, rows)"),
        ({"type": "page_table", "pages": 100}, "names 128 pages and there are 100"),
        ({"type": "integers", "high": 0}, "has no value: low is 0, high 0"),
        ({"type": "integers", "high": 2**31 + 1}, "reaches 2147483648, which int32 cannot hold"),
        ({"type": "index_pointers", "total": 100}, "127 pieces of at least 1 need 127"),
        (
            {"type": "index_pointers", "total": 999, "longest": 2},
            "127 pieces of at most 2 hold 254",
        ),
        ({"type": "index_pointers", "total": "rows / 256"}, "is 0.5, not a whole number"),
        ({"type": "index_pointers", "total": "rows // 0"}, "has no value"),
        ({"type": "uniform"}, "needs float64, float32, bfloat16, float16, float8_e5m2 or"),
    ],
)
def test_a_distribution_that_cannot_be_drawn_is_explained(
    good: Dataset, distribution: dict[str, Any], said: str
) -> None:
    _with_indices(good, "kv_indptr", {"type": "random", "distribution": distribution})

    found = [finding.message for finding in good.findings() if finding.code == "WKL-30"]

    assert said in found[0]


def test_one_bad_line_hides_no_other(good: Dataset) -> None:
    good.edit_line(WORKLOADS, 2, lambda line: line["workload"]["axes"].update(rows=0))
    good.write(WORKLOADS, "not json\n" + good.read(WORKLOADS))

    assert {"WKL-02", "WKL-07"} <= good.codes()


def test_a_misspelt_name_in_a_constraint_is_pointed_out(good: Dataset) -> None:
    good.edit(DEFINITION, lambda definition: definition["constraints"].append("row > 0"))

    (finding,) = [finding for finding in good.findings() if finding.code == "DEF-09"]

    assert finding.message.endswith("'row' is no axis; did you mean 'rows'?")


def test_a_workload_twice_is_less_than_two_workloads_with_one_uuid(good: Dataset) -> None:
    good.write(WORKLOADS, good.read(WORKLOADS) + good.lines(WORKLOADS)[0] + "\n")
    twice = [finding.level for finding in good.findings() if finding.code == "WKL-20"]
    good.edit_line(WORKLOADS, 3, lambda line: line["workload"]["axes"].update(rows=7))
    clash = [finding.level for finding in good.findings() if finding.code == "WKL-20"]

    assert (twice, clash) == ([rules.Level.WARNING], [rules.Level.ERROR])


def test_a_stored_file_outside_of_the_dataset_is_not_looked_at(good: Dataset) -> None:
    good.edit_line(
        WORKLOADS, 2, lambda line: line["workload"]["inputs"]["x"].update(path="../../etc/passwd")
    )

    (finding,) = [finding for finding in good.findings() if finding.code == "WKL-14"]

    assert "leaves the dataset" in finding.message


def test_workloads_among_the_traces_count_as_workloads(good: Dataset) -> None:
    good.write(f"traces/alice/reduce/{NAME}.jsonl", good.read(TRACES) + good.read(WORKLOADS))
    good.path(WORKLOADS).unlink()

    found = {finding.code: finding.level for finding in good.findings()}

    assert found == {"TRC-04": rules.Level.WARNING}


def test_traces_of_one_size_class_are_complete_with_its_workloads(good: Dataset) -> None:
    for number, size_class in ((1, "full"), (2, "small")):
        change = {"size_class": size_class}
        good.edit_line(WORKLOADS, number, lambda line, new=change: line["workload"].update(new))
    for path in (TRACES, BASELINE_TRACES):
        good.write(path, good.lines(path)[1] + "\n")

    assert not good.codes() & {"TRC-06", "BAS-08"}


def test_formatting_words_and_names_do_not_tell_definitions_apart(good: Dataset) -> None:
    source = (
        'def run(x, alpha):\n    """Sum."""\n    # by rows\n    return x.float().sum(-1)*alpha\n'
    )
    _second_definition(reference=f"import torch\n{source}", tags=[])(good)

    assert "DEF-08" in good.codes()


HOSTILE = {
    "not text": b"\xff\xfe\x00",
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "nested": b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000,
    "a long number": b"9" * 5000,
    "lone surrogate": b'{"name": "\\ud800", "op_type": "\\udfff"}',
    "deep expression": json.dumps(
        {"axes": {"n": {"type": "expr", "expression": "-" * 900 + "1"}}}
    ).encode(),
    "nulls": json.dumps(
        dict.fromkeys(["name", "op_type", "axes", "inputs", "outputs", "reference"])
    ).encode(),
}
PLACES = (DEFINITION, WORKLOADS, TRACES, BASELINE, PROFILE, BLOB, TOML, f"{ALICE}/main.py")


@pytest.mark.parametrize("relative", PLACES)
@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_no_file_ends_the_check(good: Dataset, relative: str, content: bytes) -> None:
    good.write("definitions/notes.txt", "")
    good.write(relative, content)

    assert "LAY-14" in good.codes()


@pytest.mark.parametrize(
    "toml",
    [
        "solution = 3\nbuild = 4\n",
        "[solution]\nsources = 5\n[build]\n",
        "[solution]\nsources = [1]\n[build]\n",
        '[solution]\nsources = ["../../../../x"]\n[build]\n',
    ],
)
def test_no_table_of_a_solution_ends_the_check(good: Dataset, toml: str) -> None:
    good.write(TOML, toml)

    assert "SOL-02" in good.codes()


def test_a_file_name_that_is_no_text_is_shown(good: Dataset) -> None:
    odd = good.root / "definitions" / "reduce" / "caf\udce9.json"
    odd.write_text("{}")

    (finding,) = [finding for finding in good.findings() if finding.code == "DEF-01"]

    assert finding.path == "definitions/reduce/caf\\udce9.json"


def test_an_empty_folder_is_an_empty_dataset(tmp_path: Path) -> None:
    found = rules.check(rules.take(tmp_path))

    assert [finding.code for finding in found] == ["LAY-20"]
