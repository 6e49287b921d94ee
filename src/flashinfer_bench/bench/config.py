"""How strict, how long: layers of settings, and the one resolved value per definition."""

from __future__ import annotations

import difflib
import hashlib
import json
import warnings
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from flashinfer_bench.bench.choices import is_cold_on
from flashinfer_bench.bench.run_settings import (
    JobSettings,
    LayeredSettings,
    RunSettings,
    TimingSettings,
    known_settings,
    settings_of,
)
from flashinfer_bench.data.parsing import fault_sentence
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

    from flashinfer_bench.data import Definition, Workload

_CONFIG_HASH_DIGITS = 16
_NOTHING: Mapping[str, Any] = MappingProxyType({})
WITHOUT_STOPPING_RULES: Mapping[str, Any] = MappingProxyType(
    {"until_interval": None, "time_budget_seconds": None, "racing": False}
)
"""Settings of a job that takes its samples, however they turn out."""
_DEPRECATED_EXTRA = ("sampling_validation_trials", "sampling_tvd_threshold")


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @field_validator("*")
    @classmethod
    def _checked(cls, value: Any, info: ValidationInfo) -> Any:
        known = known_settings().get(info.field_name or "")
        check = known.setting.check if known else None
        return value if check is None or value is None else check(value)


class ResolvedEvalConfig(_Settings, JobSettings):
    """What holds for one job after all layers."""

    if TYPE_CHECKING:

        def __init__(self, **settings: Any) -> None: ...

    def is_cold_on(self, device_kind: str) -> bool:
        """Tell whether caches are evicted before each sample; on CUDA they are unless told otherwise."""
        return is_cold_on(device_kind, self.cache)


class _LayerBase(_Settings):
    @model_validator(mode="before")
    @classmethod
    def _only_what_is_said(cls, given: Any) -> Any:
        """Leave out what is `None`, and turn `off` into the `None` that means none."""
        if not isinstance(given, dict):
            return given
        layered = settings_of(LayeredSettings)
        said = {
            name: value for name, value in given.items() if value is not None or name not in layered
        }
        for name in said.keys() & layered.keys():
            is_off = said[name] is False or said[name] == "off"  # YAML reads `off` as false
            if is_off and layered[name].may_be_none:
                said[name] = None
        return said

    def said(self) -> dict[str, Any]:
        """Give what this layer says; `None` for what it switches off."""
        names = self.model_fields_set & settings_of(LayeredSettings).keys() - {"extra"}
        return {name: getattr(self, name) for name in names}


def _as_layer() -> dict[str, Any]:
    """Give fields for all settings of a layer, each of which may be left out."""
    fields: dict[str, Any] = {}
    for known in settings_of(LayeredSettings).values():
        is_merged = isinstance(known.default, dict)
        fields[known.name] = (
            (known.annotation, known.default) if is_merged else (known.annotation | None, None)
        )
    return fields


if TYPE_CHECKING:

    class _Layer(_LayerBase):
        extra: dict[str, Any]
        time_budget_seconds: float | None
else:
    _Layer = create_model("_Layer", __base__=_LayerBase, **_as_layer())


class EvalConfig(_Layer):
    """One layer: what is left out, or `None`, is inherited from the layer below; `off` switches off what may be off."""

    if TYPE_CHECKING:

        def __init__(self, **settings: Any) -> None: ...


OP_TYPE_LAYERS: Mapping[str, EvalConfig] = MappingProxyType(
    {
        "moe": EvalConfig(required_matched_ratio=0.95),
        "sampling": EvalConfig(
            extra={"sampling_validation_trials": 100, "sampling_tvd_threshold": 0.2}
        ),
    }
)
"""What is built in for an op type that `op_type_config` does not name."""


class BenchmarkConfig(_Layer, RunSettings):
    """Everything a run can be told; the same keys as the YAML file.

    What may differ by op type and definition is `None` here unless it is given, and then it goes before all layers.
    """

    op_type_config: dict[str, EvalConfig] = Field({})
    """Layers by op type; one that is given stands in for what is built in for that op type."""
    definition_config: dict[str, EvalConfig] = Field({})
    """Layers by definition name; above those by op type."""

    if TYPE_CHECKING:

        def __init__(self, **settings: Any) -> None: ...

    @model_validator(mode="after")
    def _warn_of_deprecated(self) -> BenchmarkConfig:
        if self.log_dir is not None:
            message = "log_dir is deprecated and ignored: logs are part of the traces"
            warnings.warn(message, DeprecationWarning, stacklevel=4)
        return self

    @model_validator(mode="after")
    def _require_budget_within_timeout(self) -> BenchmarkConfig:
        layers = [self, *self.op_type_config.values(), *self.definition_config.values()]
        longest_s = max(layer.time_budget_seconds or 0 for layer in layers)
        if longest_s > self.timeout_seconds:
            raise ValueError(
                f"a time budget of {longest_s:g} s is longer than the time-out of "
                f"{self.timeout_seconds:g} s; raise timeout_seconds too"
            )
        return self

    @classmethod
    def from_yaml(
        cls, path: str | Path, *, beneath: Mapping[str, Any] = _NOTHING, **overrides: Any
    ) -> BenchmarkConfig:
        """Read a YAML file; `overrides` replace its keys, which replace those `beneath`.

        `UsageError` says what is wrong with it.
        """
        import yaml  # noqa: PLC0415  # only runs with a file need it

        try:
            content = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
        except OSError as error:
            raise UsageError(f"cannot read config {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"config {path} is not UTF-8 text") from error
        except yaml.YAMLError as error:
            raise UsageError(f"config {path} is no valid YAML: {error}") from error
        if not isinstance(content, dict):
            raise UsageError(f"config {path} must be a mapping of settings")
        return cls._validated({**beneath, **content, **overrides}, f"config {path}")

    @classmethod
    def default(cls, **overrides: Any) -> BenchmarkConfig:
        """Return `BenchmarkConfig(**overrides)`; `UsageError` says what is wrong with them."""
        return cls._validated(overrides, "settings")

    @classmethod
    def _validated(cls, settings: dict[str, Any], where: str) -> BenchmarkConfig:
        try:
            return cls(**settings)
        except ValidationError as error:
            raise UsageError(f"{where}: {_explained(error)}") from error

    def resolve_eval_config(
        self, definition: Definition, workload: Workload | None = None
    ) -> ResolvedEvalConfig:
        """Merge the layers, weakest first: built-in, op type, definition, workload, this object's own fields."""
        built_in = OP_TYPE_LAYERS.get(definition.op_type, EvalConfig())
        layers = [
            self.op_type_config.get(definition.op_type, built_in),
            self.definition_config.get(definition.name, EvalConfig()),
        ]
        merged = {name: getattr(self, name) for name in settings_of(TimingSettings)}
        extra: dict[str, Any] = {}
        for layer in layers:
            merged |= layer.said()
            extra |= layer.extra
        if workload is not None and workload.tolerance is not None:
            declared = workload.tolerance.model_dump(exclude_none=True)
            for name in ("max_error_cap", "allow_negative_inf"):  # parameters of one judge
                value = declared.pop(name, None)
                extra |= {_OF_SUMMED[name]: value} if value else {}
            merged |= declared
        deprecated = {name: getattr(self, name) for name in _DEPRECATED_EXTRA}
        extra |= self.extra | {
            name: value for name, value in deprecated.items() if value is not None
        }
        return ResolvedEvalConfig(**{**merged, **self.said(), "extra": extra})


_OF_SUMMED = {"max_error_cap": "absolute_error_cap", "allow_negative_inf": "allow_negative_inf"}
"""What the judge `summed` takes of a workload's tolerance, by the names of its parameters."""


def config_hash(config: ResolvedEvalConfig, **measured_with: object) -> str:
    """Hash what changes a result: tolerances, counts, and clock, cache state, threads, judge.

    Not the seed, time-outs, paths or the device's index. A setting whose `hashed` says so is left out at its
    default, so that a new one leaves older hashes as they were.
    """
    content = config.model_dump(mode="json")
    for known in settings_of(JobSettings).values():
        is_default = getattr(config, known.name) == known.default
        if known.setting.hashed == "elsewhere" or (
            known.setting.hashed == "if_not_default" and is_default
        ):
            del content[known.name]
    canonical = json.dumps(content | measured_with, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:_CONFIG_HASH_DIGITS]


def _explained(error: ValidationError) -> str:
    return "; ".join(_explained_one(fault) for fault in error.errors())


def _explained_one(fault: ErrorDetails) -> str:
    where = ".".join(str(part) for part in fault["loc"])
    if fault["type"] != "extra_forbidden":
        said = fault_sentence(fault)
        return f"{where}: {said}" if where else said
    known = {*BenchmarkConfig.model_fields, *EvalConfig.model_fields}
    near = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1)
    return f"unknown setting {where!r}" + (f"; did you mean {near[0]!r}?" if near else "")
