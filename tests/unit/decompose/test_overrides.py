from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from flashinfer_bench.decompose.grouping import (
    check_tree,
    decompose_trace,
    load_overrides,
    parse_overrides,
)
from flashinfer_bench.decompose.grouping.overrides import IDIOMS, RULES, Treatment
from flashinfer_bench.decompose.ir import Node, OpTrace
from flashinfer_bench.errors import UsageError
from tests.unit.decompose.traces import Building, children, leaves


def _model() -> OpTrace:
    """An attention-like module of six kernels, a composite, and a long tail."""
    made = Building()
    x = made.input(4, 8)
    with made.module("blocks.0", "Block"):
        x = made.op("relu", made.linear(x, 8))
        with made.module("act", "SquaredReLU"):
            x = made.op("square", made.op("relu", x))
        for _ in range(4):
            x = made.linear(x, 8)
    with made.module("head", "Head"):
        gate = made.op("mul", x, made.op("sigmoid", x))
        x = made.linear(gate, 2)
    return made.trace(x)


def _tree(text: str) -> Node:
    trace = _model()
    tree = decompose_trace(trace, parse_overrides(yaml.safe_load(text)))
    assert check_tree(trace, tree) == ()
    return tree


def test_without_overrides_the_rules_decide() -> None:
    assert children(_tree("")) == [("layer", "Block"), ("fusion", "head")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "scopes: {blocks.0: kernel}",
            [("kernel", "block"), ("kernel", "silu"), ("kernel", "linear")],
        ),
        ("scopes: {Head: kernel}", [("layer", "Block"), ("kernel", "head")]),
        ("scopes: {'blocks.*': fusion}", [("fusion", "block"), ("fusion", "head")]),
        ("scopes: {head: layer}", [("layer", "Block"), ("layer", "Head")]),
        ("scopes: {head: {name: classifier}}", [("layer", "Block"), ("fusion", "classifier")]),
        (
            "scopes: {blocks.0: {as: kernel, name: mega}}",
            [("kernel", "mega"), ("kernel", "silu"), ("kernel", "linear")],
        ),
    ],
)
def test_a_scope_becomes_what_a_person_says(text: str, expected: list[tuple[str, str]]) -> None:
    assert children(_tree(text)) == expected


def test_split_gives_a_modules_parts_to_its_parent() -> None:
    tree = _tree("scopes: {head: split}")

    assert children(tree)[1:] == [("kernel", "silu"), ("kernel", "linear")]


def test_split_takes_a_composite_apart() -> None:
    assert leaves(_tree("scopes: {SquaredReLU: split}"))[:4] == [
        "linear", "relu", "relu", "square",
    ]  # fmt: skip


def test_a_kernel_made_by_a_person_says_so() -> None:
    kernel = _tree("scopes: {blocks.0: kernel}").children[0]

    assert kernel.opaque == "kept whole by the overrides"
    assert kernel.reason == "override: blocks.0 is one kernel of 8 operations"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("rules: {idioms: off}", ["sigmoid", "mul", "linear"]),
        ("rules: {idioms: {silu: off}}", ["sigmoid", "mul", "linear"]),
        ("rules: {idioms: {mish: off}}", ["silu", "linear"]),
    ],
)
def test_an_idiom_that_is_off_is_not_looked_for(text: str, names: list[str]) -> None:
    assert leaves(_tree(text).children[-1]) == names


def test_composites_have_a_limit() -> None:
    assert "squared_relu" in leaves(_tree("rules: {composites: {max_ops: 2}}"))
    assert "squared_relu" not in leaves(_tree("rules: {composites: {max_ops: 1}}"))
    assert "squared_relu" not in leaves(_tree("rules: {composites: off}"))


def test_chains_have_a_limit_and_can_be_off() -> None:
    longer, shorter = _tree("rules: {chains: {max_kernels: 2}}"), _tree("rules: {chains: off}")

    assert children(longer.children[0])[:2] == [
        ("fusion", "linear_relu"),
        ("kernel", "squared_relu"),
    ]
    assert {level for level, _ in children(shorter.children[0])} == {"kernel"}


def test_without_module_fusions_small_modules_have_no_node() -> None:
    tree = _tree("rules: {module_fusions: off}")

    assert ("fusion", "head") not in children(tree)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"rule": {}}, "o.yaml: no key named 'rule'; did you mean 'rules'?"),
        ({"rules": {"chians": False}}, "o.yaml: rules: no rule named 'chians'; did you mean 'chains'?"),
        (
            {"rules": {"chains": {"max": 3}}},
            "o.yaml: rules.chains: no limit named 'max'; there are max_kernels",
        ),
        (
            {"rules": {"chains": {"max_kernels": 0}}},
            "o.yaml: rules.chains.max_kernels: a whole number above 0 expected, got 0",
        ),
        ({"rules": {"chains": 3}}, "o.yaml: rules.chains: on, off or limits expected, got 3"),
        (
            {"rules": {"idioms": {"sillu": False}}},
            "o.yaml: rules.idioms: no idiom named 'sillu'; did you mean 'silu'?",
        ),
        (
            {"rules": {"idioms": {"silu": 1}}},
            "o.yaml: rules.idioms.silu: on or off expected, got 1",
        ),
        (
            {"scopes": {"head": "kernle"}},
            "o.yaml: scopes.head: one of kernel, fusion, layer, whole, split expected, got 'kernle'",
        ),
        (
            {"scopes": {"head": {"name": "a b"}}},
            "o.yaml: scopes.head.name: a name as in Python expected, got 'a b'",
        ),
        ({"scopes": {0: "kernel"}}, "o.yaml: scopes: a name expected, got 0; put it in quotes"),
        (["rules"], "o.yaml: names with values expected, got ['rules']"),
    ],
)  # fmt: skip
def test_what_overrides_cannot_mean_is_refused_by_name(content: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_overrides(content, origin="o.yaml")

    assert str(caught.value) == message


def test_a_scope_that_the_model_lacks_is_refused_with_the_nearest() -> None:
    overrides = parse_overrides({"scopes": {"block.0": "kernel"}}, origin="o.yaml")

    with pytest.raises(UsageError) as caught:
        decompose_trace(_model(), overrides)

    assert str(caught.value) == (
        "o.yaml: scopes: 'block.0' matches no module or function of the model; did you mean 'blocks.0'?"
    )


def test_a_file_that_is_missing_or_no_yaml_is_one_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("rules:\n  chains: [1\n")

    with pytest.raises(UsageError, match=r"no overrides file .*absent\.yaml"):
        load_overrides(tmp_path / "absent.yaml")
    with pytest.raises(UsageError, match=r"broken\.yaml:3: not YAML"):
        load_overrides(broken)


def test_a_file_is_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "o.yaml"
    path.write_text("rules:\n  chains: off\nscopes:\n  head: kernel\n")

    overrides = load_overrides(path)

    assert not overrides.is_on("chains")
    assert overrides.scopes[0].treatment == "kernel"


def test_a_node_that_a_person_wants_is_dissolved_by_no_rule() -> None:
    tree = _tree("scopes: {blocks.0: kernel, head: fusion}")

    assert tree.level == "layer"
    assert children(tree) == [("kernel", "block"), ("fusion", "head")]


def test_the_example_of_the_page_is_read() -> None:
    page = Path(__file__).parents[3] / "docs" / "decompose-overrides.md"
    example = page.read_text().split("```yaml\n")[1].split("```")[0]

    overrides = parse_overrides(yaml.safe_load(example))

    assert [(rule.pattern, rule.treatment, rule.name) for rule in overrides.scopes] == [
        ("blocks.*.attn", "kernel", None),
        ("RMSNorm", "split", None),
        ("apply_rotary", "kernel", "rope"),
    ]
    assert not overrides.is_on("chains")


def test_the_page_lists_every_rule_limit_and_idiom() -> None:
    page = (Path(__file__).parents[3] / "docs" / "decompose-overrides.md").read_text()

    wanted = {f"`{name}: {number}`" for limits in RULES.values() for name, number in limits.items()}
    wanted |= {f"`{name}`" for name in (*RULES, *IDIOMS, *get_args(Treatment))}

    assert {each for each in wanted if each not in page} == set()


def test_of_several_patterns_the_last_counts() -> None:
    tree = _tree("scopes: {'*': layer, head: kernel, blocks.0: kernel}")

    assert [node.opaque for node in tree.children] == ["kept whole by the overrides"] * 2
