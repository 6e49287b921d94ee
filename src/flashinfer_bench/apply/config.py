"""What `apply` may use, and what it does where nothing was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field

from flashinfer_bench.data.entity import Entity
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

OnMiss = Literal["fallback_only", "use_def_best", "use_nearest"]
Bound = Annotated[float, Field(gt=0)]


class ApplyConfig(Entity):
    """Which measured solutions answer the calls of a definition, and how they are watched."""

    model_config = ConfigDict(validate_default=True)

    max_atol: Bound | None = None
    """Largest absolute error a trace may show; None: passing is enough."""
    max_rtol: Bound | None = None
    """Largest relative error a trace may show; None: passing is enough."""
    aot_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of a definition's winners that is built when the runtime starts, those with most wins first."""
    on_miss_policy: OnMiss = "fallback_only"
    """For sizes that were not measured: the fallback, the solution with most wins, or the nearest size's winner."""
    shadow: bool = False
    """Run solution and original, compare, return the original's answer, report."""
    verify_first_n: Annotated[int, Field(ge=0)] = 0
    """Calls of each size that are compared with the original before a solution's answer is used."""
    verify_atol: Bound = 1e-2
    """Absolute tolerance of `shadow` and `verify_first_n`."""
    verify_rtol: Bound = 1e-2
    """Relative tolerance of `shadow` and `verify_first_n`."""
    allow_other_hardware: bool = False
    """Use what was measured on other devices where nothing was on this one."""
    allow_reused_buffers: bool = False
    """Use solutions that give the same memory back in every call: an answer must be used up before the next call."""
    static_inputs_never_change: bool = False
    """Use solutions that pack static inputs once with `prepare`: new values must come in new tensors."""


class ApplyConfigRegistry:
    """Settings by definition, and those of all others; `default=None` leaves all others alone."""

    def __init__(
        self,
        default: ApplyConfig | None = None,
        per_definition: Mapping[str, ApplyConfig] | None = None,
    ) -> None:
        self.default = default
        self.per_definition = dict(per_definition or {})

    def get(self, name: str) -> ApplyConfig | None:
        """Find a definition's settings; None: its calls are left alone."""
        return self.per_definition.get(name, self.default)

    def register(self, name: str, config: ApplyConfig, *, override: bool = False) -> Self:
        """Set a definition's settings; a second time needs `override`."""
        return self.register_many({name: config}, override=override)

    def register_many(self, configs: Mapping[str, ApplyConfig], *, override: bool = False) -> Self:
        """Set several definitions' settings, all or none."""
        known = sorted(configs.keys() & self.per_definition.keys())
        if known and not override:
            raise UsageError(
                f"{', '.join(known)}: there are settings already; pass override=True to replace them"
            )
        self.per_definition |= configs
        return self


def get_default_registry() -> ApplyConfigRegistry:
    """Give the settings used when none are given: the defaults, for every definition."""
    return ApplyConfigRegistry(default=ApplyConfig())


def registry_of(config: ApplyConfig | ApplyConfigRegistry | None) -> ApplyConfigRegistry:
    """Read what `enable_apply` takes: nothing, one config for all definitions, or a registry."""
    match config:
        case None:
            return get_default_registry()
        case ApplyConfig():
            return ApplyConfigRegistry(default=config)
        case ApplyConfigRegistry():
            return config
        case _:
            raise UsageError(
                f"apply_config must be an ApplyConfig or ApplyConfigRegistry, not {type(config).__name__}"
            )
