from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from flashinfer_bench.bench import BenchmarkConfig, EvalConfig, ResolvedEvalConfig
from flashinfer_bench.bench.config import config_hash
from flashinfer_bench.data import AxisConst, Definition, Workload
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = """
timeout_seconds: 120
use_isolated_runner: true
definitions: [scaled_rowsum_n256]
iterations: 100            # top level: beats everything below
op_type_config:
  reduce: {rtol: 1.0e-3, num_trials: 5}
definition_config:
  scaled_rowsum_n256: {rtol: 5.0e-4, iterations: 7, extra: {my_flag: 1}}
"""


def definition(name: str = "scaled_rowsum_n256", op_type: str = "reduce") -> Definition:
    return Definition(
        name=name,
        op_type=op_type,
        axes={"n": AxisConst(value=4)},
        inputs={},
        outputs={"y": {"shape": ["n"], "dtype": "float32"}},
        reference="def run():\n    return 0\n",
    )


@pytest.fixture
def example(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(EXAMPLE)
    return path


def written(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text)
    return path


def test_every_override_is_unset_unless_given() -> None:
    config = BenchmarkConfig()

    assert [
        config.warmup_runs,
        config.iterations,
        config.num_trials,
        config.rtol,
        config.atol,
        config.required_matched_ratio,
        config.sampling_validation_trials,
        config.sampling_tvd_threshold,
    ] == [None] * 8


def test_the_defaults_of_a_run_are_those_of_the_format() -> None:
    config = BenchmarkConfig()

    assert config.timeout_seconds == 300
    assert config.profile_baseline
    assert not config.use_isolated_runner
    assert config.definitions is None
    assert config.op_type_config == {}
    assert config.audit
    assert not config.strict
    assert not config.strict_hardware
    assert config.seed is None


def test_hard_defaults_are_those_of_the_format() -> None:
    resolved = BenchmarkConfig().resolve_eval_config(definition())

    assert resolved == ResolvedEvalConfig(
        warmup_runs=10,
        iterations=50,
        num_trials=3,
        rtol=1e-2,
        atol=1e-2,
        required_matched_ratio=None,
        profile_baseline=True,
        extra={},
    )


@pytest.mark.parametrize("cls", [BenchmarkConfig, EvalConfig])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("warmup_runs", -1),
        ("iterations", 0),
        ("num_trials", 0),
        ("rtol", 0.0),
        ("rtol", float("nan")),
        ("atol", -1e-3),
        ("required_matched_ratio", 0.0),
        ("required_matched_ratio", 1.01),
        ("max_precision_ratio", 0.0),
        ("iterations", 1.5),
        ("iterations", "many"),
    ],
)
def test_an_impossible_value_is_refused_in_every_layer(
    cls: type[BenchmarkConfig] | type[EvalConfig], name: str, value: object
) -> None:
    with pytest.raises(ValidationError, match=name):
        cls(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout_seconds", 0),
        ("timeout_seconds", float("inf")),
        ("build_timeout_seconds", -1),
        ("build_timeout_seconds", float("inf")),
        ("sampling_validation_trials", 0),
        ("sampling_tvd_threshold", 1.5),
        ("threads", 0),
        ("seed", -1),
        ("seed", 2**64),
        ("sandbox", "none"),
        ("definitions", "a_name_that_is_no_list"),
    ],
)
def test_an_impossible_setting_of_a_run_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=name):
        BenchmarkConfig(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("warmup_runs", 0),
        ("required_matched_ratio", 1.0),
        ("seed", 2**64 - 1),
        ("seed", 0),
        ("sampling_tvd_threshold", 0.0),
        ("timeout_seconds", 0.5),
    ],
)
def test_a_value_at_the_edge_is_accepted(name: str, value: object) -> None:
    config = BenchmarkConfig(**{name: value})

    assert getattr(config, name) == value


def test_a_configuration_does_not_change() -> None:
    config = BenchmarkConfig()

    with pytest.raises(ValidationError):
        config.iterations = 5


def test_the_documented_example_resolves_as_documented(example: Path) -> None:
    config = BenchmarkConfig.from_yaml(example)

    assert config.timeout_seconds == 120
    assert config.use_isolated_runner
    assert config.definitions == ["scaled_rowsum_n256"]
    assert config.resolve_eval_config(definition()) == ResolvedEvalConfig(
        warmup_runs=10,
        iterations=100,
        num_trials=5,
        rtol=5e-4,
        atol=1e-2,
        required_matched_ratio=None,
        extra={"my_flag": 1},
    )


def test_layers_speak_of_their_own_definitions_only(example: Path) -> None:
    config = BenchmarkConfig.from_yaml(example)

    sibling = config.resolve_eval_config(definition("another_sum"))
    stranger = config.resolve_eval_config(definition("another_gemm", "gemm"))

    assert (sibling.rtol, sibling.num_trials, sibling.extra) == (1e-3, 5, {})
    assert (stranger.rtol, stranger.num_trials, stranger.iterations) == (1e-2, 3, 100)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 0.01),
        ({"op_type_config": {"reduce": {"rtol": 0.1}}}, 0.1),
        (
            {
                "op_type_config": {"reduce": {"rtol": 0.1}},
                "definition_config": {"scaled_rowsum_n256": {"rtol": 0.2}},
            },
            0.2,
        ),
        (
            {
                "op_type_config": {"reduce": {"rtol": 0.1}},
                "definition_config": {"scaled_rowsum_n256": {"rtol": 0.2}},
                "rtol": 0.3,
            },
            0.3,
        ),
        ({"op_type_config": {"reduce": {"rtol": 0.1}}, "rtol": None}, 0.1),
        (
            {
                "op_type_config": {"reduce": {"rtol": 0.1}},
                "definition_config": {"scaled_rowsum_n256": {"rtol": None}},
            },
            0.1,
        ),
    ],
    ids=["built-in", "op type", "definition", "top level", "null on top", "null below"],
)
def test_the_strongest_layer_that_says_something_wins(
    given: dict[str, Any], expected: float
) -> None:
    resolved = BenchmarkConfig(**given).resolve_eval_config(definition())

    assert resolved.rtol == expected


def test_a_warmup_of_zero_is_said_and_not_inherited() -> None:
    config = BenchmarkConfig(
        op_type_config={"reduce": {"warmup_runs": 5}},
        definition_config={"scaled_rowsum_n256": {"warmup_runs": 0}},
    )

    assert config.resolve_eval_config(definition()).warmup_runs == 0


def test_a_misspelt_parameter_of_a_judge_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("op_type_config: {sampling: {extra: {sampling_validation_trails: 3}}}\n")

    with pytest.raises(UsageError) as error:
        BenchmarkConfig.from_yaml(file)

    assert "op_type_config.sampling.extra: no judge reads 'sampling_validation_trails'" in str(
        error.value
    )
    assert "did you mean 'sampling_validation_trials'?" in str(error.value)


def test_extra_is_merged_key_by_key() -> None:
    config = BenchmarkConfig(
        op_type_config={"reduce": {"extra": {"a": 1, "b": 1}}},
        definition_config={"scaled_rowsum_n256": {"extra": {"b": 2, "c": 2}}},
    )

    assert config.resolve_eval_config(definition()).extra == {"a": 1, "b": 2, "c": 2}


def test_extra_of_one_definition_is_not_seen_by_the_next() -> None:
    config = BenchmarkConfig(op_type_config={"reduce": {"extra": {"a": 1}}})

    config.resolve_eval_config(definition()).extra["b"] = 2

    assert config.resolve_eval_config(definition()).extra == {"a": 1}


def test_profiling_the_baseline_is_resolved_too() -> None:
    config = BenchmarkConfig(profile_baseline=False)

    assert not config.resolve_eval_config(definition()).profile_baseline


@pytest.mark.parametrize("config", [BenchmarkConfig(), BenchmarkConfig.default()])
def test_defaults_are_those_of_the_ecosystem(config: BenchmarkConfig) -> None:

    assert config.resolve_eval_config(definition("m", "moe")).required_matched_ratio == 0.95
    assert config.resolve_eval_config(definition("s", "sampling")).extra == {
        "sampling_validation_trials": 100,
        "sampling_tvd_threshold": 0.2,
    }
    assert config.resolve_eval_config(definition()) == ResolvedEvalConfig()


def test_a_layer_of_an_op_type_stands_in_for_what_is_built_in_for_it() -> None:
    config = BenchmarkConfig(op_type_config={"moe": EvalConfig(rtol=0.5)})

    moe = config.resolve_eval_config(definition("m", "moe"))

    assert (moe.rtol, moe.required_matched_ratio) == (0.5, None)
    assert "sampling_tvd_threshold" in config.resolve_eval_config(definition("s", "sampling")).extra


@pytest.mark.parametrize("off", ["off", "'off'"])
def test_a_layer_switches_off_what_the_one_below_asks_for(tmp_path: Path, off: str) -> None:
    file = written(
        tmp_path,
        "op_type_config: {reduce: {max_precision_ratio: 2, until_interval: 0.05}}\n"
        f"definition_config: {{scaled_rowsum_n256: {{max_error_cap: {off}, until_interval: {off}}}}}\n",
    )

    resolved = BenchmarkConfig.from_yaml(file).resolve_eval_config(definition())

    assert resolved.max_error_cap is None
    assert resolved.until_interval is None
    assert resolved.max_precision_ratio == 2


def test_the_settings_of_a_run_switch_off_too_and_none_says_nothing() -> None:
    layer = {"reduce": EvalConfig(max_error_cap=3.0, max_precision_ratio=2.0)}
    config = BenchmarkConfig(op_type_config=layer, max_error_cap="off", max_precision_ratio=None)

    resolved = config.resolve_eval_config(definition())

    assert (resolved.max_error_cap, resolved.max_precision_ratio) == (None, 2.0)


def test_what_cannot_be_off_is_not_switched_off() -> None:
    with pytest.raises(ValidationError, match="rtol"):
        EvalConfig(rtol="off")


def test_an_override_beats_the_built_in_ratio() -> None:
    config = BenchmarkConfig.default(required_matched_ratio=0.9)

    assert config.resolve_eval_config(definition("m", "moe")).required_matched_ratio == 0.9


def test_a_setting_of_the_run_goes_before_layers_whatever_its_default() -> None:
    layer = {"reduce": EvalConfig(iterations=7)}

    config = BenchmarkConfig(op_type_config=layer, iterations=50)

    assert config.resolve_eval_config(definition()).iterations == 50


def test_extra_of_the_run_goes_before_that_of_layers() -> None:
    config = BenchmarkConfig(op_type_config={"reduce": {"extra": {"a": 1, "b": 1}}}, extra={"b": 2})

    assert config.resolve_eval_config(definition()).extra == {"a": 1, "b": 2}


def test_an_override_replaces_the_key_of_the_file(example: Path) -> None:
    config = BenchmarkConfig.from_yaml(example, iterations=3, definitions=None)

    assert config.iterations == 3
    assert config.definitions is None
    assert config.timeout_seconds == 120


def test_an_empty_file_is_a_configuration(tmp_path: Path) -> None:
    assert BenchmarkConfig.from_yaml(written(tmp_path, "# nothing\n")) == BenchmarkConfig()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("iteratons: 5\n", ["unknown setting 'iteratons'", "did you mean 'iterations'?"]),
        (
            "op_type_config:\n  gemm: {rtoll: 1}\n",
            ["unknown setting 'op_type_config.gemm.rtoll'", "did you mean 'rtol'?"],
        ),
        ("zzz: 5\n", ["unknown setting 'zzz'"]),
        ("iterations: 0\nnum_trials: -1\n", ["iterations", "num_trials", "must be more than 0"]),
        ("definition_config: {d: {atol: 0}}\n", ["definition_config.d.atol"]),
        ("- a\n- b\n", ["must be a mapping"]),
        ("a: [\n", ["no valid YAML"]),
    ],
    ids=["unknown", "unknown below", "unlike any", "two faults", "below", "list", "syntax"],
)
def test_a_faulty_file_is_named_with_its_faults(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    path = written(tmp_path, text)

    with pytest.raises(UsageError) as caught:
        BenchmarkConfig.from_yaml(path)

    assert str(path) in str(caught.value)
    assert [word for word in words if word not in str(caught.value)] == []


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read config .*absent\.yaml: No such file"):
        BenchmarkConfig.from_yaml(tmp_path / "absent.yaml")


def test_a_log_folder_is_deprecated_and_changes_nothing() -> None:
    with pytest.warns(DeprecationWarning, match="log_dir"):
        config = BenchmarkConfig(log_dir="/logs")

    assert config.resolve_eval_config(definition()) == ResolvedEvalConfig()


def test_a_configuration_without_deprecated_fields_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        config = BenchmarkConfig.default()

    assert config.log_dir is None


def test_deprecated_sampling_fields_still_beat_the_extra_of_the_layers() -> None:
    config = BenchmarkConfig.default(sampling_validation_trials=7, sampling_tvd_threshold=0.0)

    assert config.resolve_eval_config(definition("s", "sampling")).extra == {
        "sampling_validation_trials": 7,
        "sampling_tvd_threshold": 0.0,
    }


def test_the_hash_of_a_configuration_is_the_same_in_every_process_and_version() -> None:
    found = config_hash(ResolvedEvalConfig(), clock="wall", threads=2, judge="gemm")

    assert found == "4761635ff705f738"


def test_the_order_of_keys_does_not_matter_to_the_hash() -> None:
    one = ResolvedEvalConfig(extra={"a": 1, "b": 2})
    other = ResolvedEvalConfig(extra={"b": 2, "a": 1})

    assert config_hash(one, clock="wall", threads=2) == config_hash(other, threads=2, clock="wall")


@pytest.mark.parametrize(
    "change",
    [
        {"warmup_runs": 11},
        {"iterations": 51},
        {"num_trials": 4},
        {"rtol": 2e-2},
        {"atol": 2e-2},
        {"required_matched_ratio": 0.95},
        {"max_error_cap": 5.0},
        {"max_precision_ratio": 2.0},
        {"profile_baseline": False},
        {"extra": {"a": 1}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_changes_a_result_changes_the_hash(change: dict[str, Any]) -> None:
    assert config_hash(ResolvedEvalConfig(**change)) != config_hash(ResolvedEvalConfig())


@pytest.mark.parametrize("change", [{"clock": "cuda_events"}, {"threads": 4}, {"judge": "exact"}])
def test_how_it_was_measured_changes_the_hash(change: dict[str, object]) -> None:
    measured_with = {"clock": "wall", "threads": 2, "judge": "gemm"}

    assert config_hash(ResolvedEvalConfig(), **{**measured_with, **change}) != config_hash(
        ResolvedEvalConfig(), **measured_with
    )


def test_a_time_budget_beyond_the_time_out_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"^settings: a time budget of 400 s is longer than the time"
    ):
        BenchmarkConfig.default(time_budget_seconds=400.0)


def test_a_stopping_rule_is_part_of_the_hash_and_its_absence_is_not() -> None:
    plain, narrow = ResolvedEvalConfig(), ResolvedEvalConfig(until_interval=0.01)

    assert config_hash(narrow) != config_hash(plain)
    assert config_hash(plain) == config_hash(ResolvedEvalConfig(time_budget_seconds=None))
    assert config_hash(narrow) != config_hash(ResolvedEvalConfig(until_interval=0.02))


def test_a_stopping_rule_may_be_a_definitions_own() -> None:
    config = BenchmarkConfig.default(
        definition_config={
            "scaled_rowsum_n256": EvalConfig(until_interval=0.05, time_budget_seconds=2.0)
        }
    )

    resolved = config.resolve_eval_config(definition())

    assert (resolved.until_interval, resolved.time_budget_seconds) == (0.05, 2.0)


def test_a_workloads_own_tolerance_goes_before_its_definitions_and_after_the_users() -> None:
    own = Workload(axes={}, inputs={}, tolerance={"rtol": 1e-4, "required_matched_ratio": 0.9})
    layer = EvalConfig(rtol=1e-3, atol=1e-5)
    dataset = BenchmarkConfig(definition_config={"scaled_rowsum_n256": layer})
    user = BenchmarkConfig(rtol=0.5)

    resolved = dataset.resolve_eval_config(definition(), own)

    assert (resolved.rtol, resolved.atol, resolved.required_matched_ratio) == (1e-4, 1e-5, 0.9)
    assert dataset.resolve_eval_config(definition()).rtol == 1e-3
    assert user.resolve_eval_config(definition(), own).rtol == 0.5


def test_a_tolerance_is_a_number() -> None:
    with pytest.raises(UsageError, match="rtol"):
        BenchmarkConfig.default(rtol=float("inf"))
