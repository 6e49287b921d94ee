"""How strict, how long: layers of settings, and the one resolved value per definition."""

from __future__ import annotations

import difflib
import hashlib
import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from flashinfer_bench.bench.choices import CacheChoice, ClockChoice, is_cold_on
from flashinfer_bench.compile.architectures import require_arch
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from flashinfer_bench.data import Definition, Workload

_BUNDLED = Path(__file__).with_name("eval_config.yaml")
_CONFIG_HASH_DIGITS = 16

Positive = Annotated[float, Field(gt=0)]
Ratio = Annotated[float, Field(gt=0, le=1)]
Seconds = Annotated[float, Field(gt=0, le=1_000_000)]  # what `poll` can wait for, and eleven days
Arch = Annotated[str, AfterValidator(require_arch)]
JUDGE_PARAMETERS = (
    "sampling_validation_trials",
    "sampling_least_draws",
    "sampling_tvd_threshold",
    "sampling_rank_tolerance",
    "sampling_false_alarm_rate",
    "top_k_indices",
    "top_k_values",
    "top_k_scores",
)
"""What our judges read of `extra`; other keys are other people's."""
_ALMOST = 0.8


def _not_misspelt(extra: dict[str, Any]) -> dict[str, Any]:
    for name in set(extra) - set(JUDGE_PARAMETERS):
        near = difflib.get_close_matches(name, JUDGE_PARAMETERS, n=1, cutoff=_ALMOST)
        if near:
            raise ValueError(f"no judge reads {name!r}; did you mean {near[0]!r}?")
    return extra


JudgeExtra = Annotated[dict[str, Any], AfterValidator(_not_misspelt)]


class _Layer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class EvalConfig(_Layer):
    """One layer; what is `None` is inherited from the layer below."""

    warmup_runs: Annotated[int, Field(ge=0)] | None = None
    """Untimed calls at the start of each trial."""
    iterations: Annotated[int, Field(gt=0)] | None = None
    """Timed samples per trial."""
    num_trials: Annotated[int, Field(gt=0)] | None = None
    """Fresh sets of input pools."""
    until_interval: Ratio | None = None
    """Go on until the speedup's 95% interval is no wider than this share of it."""
    time_budget_seconds: Seconds | None = None
    """Stop timing a workload after so many seconds, whatever the other rules say."""
    rtol: Positive | None = None
    """Relative tolerance; an element is bad only if it is outside both tolerances."""
    atol: Positive | None = None
    """Absolute tolerance."""
    required_matched_ratio: Ratio | None = None
    """Share of elements that must match; 1 when not given."""
    max_error_cap: Positive | None = None
    """A forgiven element may be off by this many times the output's root mean square."""
    max_precision_ratio: Positive | None = None
    """Largest error allowed, in units of the reference's own error against float64."""
    extra: JudgeExtra = {}
    """Parameters of special judges."""


class ResolvedEvalConfig(_Layer):
    """What holds for one definition after all layers."""

    warmup_runs: int = 10
    """Untimed calls at the start of each trial."""
    iterations: int = 50
    """Timed samples per trial."""
    num_trials: int = 3
    """Fresh sets of input pools."""
    until_interval: float | None = None
    """Go on until the speedup's 95% interval is no wider than this share of it."""
    time_budget_seconds: float | None = None
    """Stop timing a workload after so many seconds, whatever the other rules say."""
    rtol: float = 1e-2
    """Relative tolerance."""
    atol: float = 1e-2
    """Absolute tolerance."""
    required_matched_ratio: float | None = None
    """Share of elements that must match; 1 when not given."""
    max_error_cap: float | None = 10.0
    """A forgiven element may be off by this many times the output's root mean square."""
    max_precision_ratio: float | None = None
    """Largest error allowed, in units of the reference's own error against float64."""
    profile_baseline: bool = True
    """Whether the reference is timed too."""
    clock: ClockChoice = "auto"
    """How time is taken."""
    cache: CacheChoice = "auto"
    """Whether caches are evicted before each sample."""
    extra: dict[str, Any] = {}
    """Parameters of special judges."""

    def is_cold_on(self, device_kind: str) -> bool:
        """Tell whether caches are evicted before each sample; on CUDA they are unless told otherwise."""
        return is_cold_on(device_kind, self.cache)


class BenchmarkConfig(_Layer):
    """Everything a run can be told; the same keys as the YAML file."""

    use_isolated_runner: bool = False
    """A fresh process for every (solution, workload) instead of one per solution."""
    definitions: list[str] | None = None
    """Definitions to run, names or globs; all when not given."""
    solutions: list[str] | None = None
    """Solutions to run, names or globs."""
    op_types: list[str] | None = None
    """Op types to run, names or globs."""
    authors: list[str] | None = None
    """Authors to run, names or globs."""
    workloads: list[str] | None = None
    """Workloads to run, uuids or globs."""
    workload_class: Literal["small", "full", "all"] | None = None
    """Workloads to run by size; `small` on a CPU, `full` on CUDA, when neither this nor a workload is given."""
    timeout_seconds: Seconds = 300
    """Seconds a solution may take for one workload."""
    build_timeout_seconds: Seconds = 300
    """Seconds a build may take."""
    profile_baseline: bool = True
    """Time the reference too; without it there is no speedup."""
    warmup_runs: Annotated[int, Field(ge=0)] | None = None
    """Overrides every layer."""
    iterations: Annotated[int, Field(gt=0)] | None = None
    """Overrides every layer."""
    num_trials: Annotated[int, Field(gt=0)] | None = None
    """Overrides every layer."""
    until_interval: Ratio | None = None
    """Overrides every layer."""
    time_budget_seconds: Seconds | None = None
    """Overrides every layer."""
    rtol: Positive | None = None
    """Overrides every layer."""
    atol: Positive | None = None
    """Overrides every layer."""
    required_matched_ratio: Ratio | None = None
    """Overrides every layer."""
    max_precision_ratio: Positive | None = None
    """Overrides every layer."""
    sampling_validation_trials: Annotated[int, Field(gt=0)] | None = None
    """Deprecated: use `extra` of the sampling op type."""
    sampling_tvd_threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    """Deprecated: use `extra` of the sampling op type."""
    log_dir: str | None = None
    """Deprecated and ignored: logs are part of the traces."""
    op_type_config: dict[str, EvalConfig] = {}
    """Layers by op type."""
    definition_config: dict[str, EvalConfig] = {}
    """Layers by definition name; above those by op type."""
    threads: Annotated[int, Field(gt=0)] | None = None
    """CPU threads of solution and reference alike; the physical cores when not given."""
    seed: Annotated[int, Field(ge=0, lt=2**64)] | None = None
    """Run key of all inputs; secret and random when not given."""
    clock: ClockChoice = "auto"
    """`events` (what a caller on a busy stream pays), `cupti` (kernel activity), `wall`; CUDA events on a GPU and the
    wall clock on a CPU when `auto`."""
    cache: CacheChoice = "auto"
    """`cold` evicts the last-level cache before each sample, `hot` does not; `auto`: cold on a GPU, hot on a CPU."""
    disturbed_repeats: Annotated[int, Field(ge=0)] = 3
    """Blocks of a job that are timed again because the machine was disturbed, at most."""
    audit: bool = True
    """Check a secret share of the timed calls too, and hold claims against what is seen from outside."""
    strict: bool = False
    """Turn notes into failures."""
    strict_hardware: bool = False
    """Skip solutions whose target hardware names another card."""
    sandbox: Literal["process", "container", "required", "off"] = "process"
    """Isolation of solutions; `required` is `process` that does not run unless all of it is in force."""
    arch: Arch | None = None
    """GPU architecture to compile for, such as `sm_90`; the device's own when not given, and `sm_90` without one."""
    label: str | None = None
    """A name for this run, kept in its traces."""

    @model_validator(mode="after")
    def _warn_of_deprecated(self) -> BenchmarkConfig:
        if self.log_dir is not None:
            message = "log_dir is deprecated and ignored: logs are part of the traces"
            warnings.warn(message, DeprecationWarning, stacklevel=4)
        return self

    @model_validator(mode="after")
    def _require_budget_within_timeout(self) -> BenchmarkConfig:
        layers = [*self.op_type_config.values(), *self.definition_config.values()]
        budgets = [self.time_budget_seconds, *(layer.time_budget_seconds for layer in layers)]
        longest_s = max(budget or 0 for budget in budgets)
        if longest_s > self.timeout_seconds:
            raise ValueError(
                f"a time budget of {longest_s:g} s is longer than the time-out of "
                f"{self.timeout_seconds:g} s; raise timeout_seconds too"
            )
        return self

    @classmethod
    def from_yaml(cls, path: str | Path, **overrides: Any) -> BenchmarkConfig:
        """Read a YAML file; `overrides` replace its keys. `UsageError` says what is wrong with it."""
        import yaml  # noqa: PLC0415  # only runs with a file need it

        try:
            content = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
        except OSError as error:
            raise UsageError(f"cannot read config {path}: {error.strerror}") from error
        except yaml.YAMLError as error:
            raise UsageError(f"config {path} is no valid YAML: {error}") from error
        if not isinstance(content, dict):
            raise UsageError(f"config {path} must be a mapping of settings")
        return cls._validated({**content, **overrides}, f"config {path}")

    @classmethod
    def default(cls, **overrides: Any) -> BenchmarkConfig:
        """Return the bundled defaults with `overrides`."""
        bundled = cls.from_yaml(_BUNDLED).model_dump(exclude_unset=True)
        return cls._validated({**bundled, **overrides}, "settings")

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
        layers = [
            self.op_type_config.get(definition.op_type, EvalConfig()),
            self.definition_config.get(definition.name, EvalConfig()),
        ]
        merged: dict[str, Any] = {"profile_baseline": self.profile_baseline}
        extra: dict[str, Any] = {}
        for layer in layers:
            merged |= layer.model_dump(exclude_none=True, exclude={"extra"})
            extra |= layer.extra
        if workload is not None and workload.tolerance is not None:
            merged |= workload.tolerance.model_dump(exclude_none=True)
        own = self.model_dump(exclude_none=True)
        merged |= {name: own[name] for name in ResolvedEvalConfig.model_fields if name in own}
        for name in ("sampling_validation_trials", "sampling_tvd_threshold"):
            extra |= {name: own[name]} if name in own else {}
        return ResolvedEvalConfig(**{**merged, "extra": extra})


def config_hash(config: ResolvedEvalConfig, **measured_with: object) -> str:
    """Hash what changes a result: tolerances, counts, and clock, cache state, threads, judge.

    Not the seed, time-outs, paths or the device's index. A stopping rule that nobody asked for is left out.
    """
    content = config.model_dump(mode="json", exclude={"clock", "cache"}) | measured_with
    for rule in ("until_interval", "time_budget_seconds"):
        if content[rule] is None:
            del content[rule]
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:_CONFIG_HASH_DIGITS]


def _explained(error: ValidationError) -> str:
    return "; ".join(_explained_one(dict(fault)) for fault in error.errors())


def _explained_one(fault: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in fault["loc"])
    if fault["type"] != "extra_forbidden":
        said = str(fault["msg"]).removeprefix("Value error, ")
        return f"{where}: {said}" if where else said
    known = {*BenchmarkConfig.model_fields, *EvalConfig.model_fields}
    near = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1)
    return f"unknown setting {where!r}" + (f"; did you mean {near[0]!r}?" if near else "")
