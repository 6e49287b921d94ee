"""Settings that fit what language models run."""

from __future__ import annotations

from collections.abc import Mapping

from flashinfer_bench.errors import UsageError
from flashinfer_bench.tracing.config import TracingConfig, TracingConfigRegistry

_EACH_SIZE_ONCE = TracingConfig(filter_policy="keep_first_k_by_axes")
# Index pointers and page tables have to fit together, so they are written down as they were.
_ATTENTION = TracingConfig(input_dump_policy="dump_int", filter_policy="attention")

_ATTENTION_OP_TYPES = ("gqa_paged", "gqa_ragged", "mla_paged", "mla_ragged", "gqa", "mla")
_SIZE_OP_TYPES = ("gemm", "rmsnorm", "fused_add_rmsnorm")


def get_default_configs() -> TracingConfigRegistry:
    """Shapes and scalars of every call."""
    return TracingConfigRegistry(default=TracingConfig())


def get_attention_only_configs() -> TracingConfigRegistry:
    """Attention alone: one call of each average length, with its index pointers and page tables."""
    return TracingConfigRegistry(per_op_type=dict.fromkeys(_ATTENTION_OP_TYPES, _ATTENTION))


def get_full_configs() -> TracingConfigRegistry:
    """Attention as above, matrix products and norms once for each size, all else as by default."""
    registry = get_attention_only_configs()
    registry.per_op_type |= dict.fromkeys(_SIZE_OP_TYPES, _EACH_SIZE_ONCE)
    registry.default = TracingConfig()
    return registry


Configs = TracingConfig | TracingConfigRegistry | Mapping[str, TracingConfig] | None


def registry_of(configs: Configs) -> TracingConfigRegistry:
    """Read what `enable_tracing` accepts; None is `get_full_configs()`."""
    match configs:
        case None:
            return get_full_configs()
        case TracingConfigRegistry():
            return configs
        case TracingConfig():
            return TracingConfigRegistry(default=configs)
        case Mapping():
            return TracingConfigRegistry().register_many(configs)
        case _:
            raise UsageError(
                f"tracing_config is a {type(configs).__name__}; give a TracingConfig, a dict of them by "
                "definition, or a TracingConfigRegistry"
            )


def chosen_configs(
    filter_policy: str | None, filter_policy_kwargs: Mapping[str, int], dump: str | list[str]
) -> TracingConfigRegistry:
    """Settings of a command line: one policy for all; without one the presets, all else once for each size."""
    if filter_policy is not None:
        arguments = dict(filter_policy_kwargs)
        return TracingConfigRegistry(TracingConfig(dump, {}, filter_policy, arguments))
    registry = get_full_configs()
    registry.default = TracingConfig(dump, filter_policy="keep_first_k_by_axes")
    return registry
