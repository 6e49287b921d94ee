"""A tiny configuration out of an architecture's own defaults: a rule over names and sizes, without torch.

Equal sizes stay equal and lists keep their ratios, so that what fitted together still does: heads times the size of a
head is the width, experts come in groups, lists by layer have as many entries as there are layers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Reduction:
    """One step of the trial: how far sizes go down."""

    width: int = 64
    image: int = 64
    heads: int = 4
    layers: int = 2


STEPS = (
    Reduction(),
    Reduction(image=128),
    Reduction(width=128),
    Reduction(width=128, heads=8, layers=4),
    Reduction(width=256, image=224, heads=16),
    Reduction(width=1 << 20, image=128, heads=1 << 10),
)
"""Tried in this order until a model runs."""

VOCABULARY = 256
DRAWN_TOKENS = 96
"""Token ids below this are drawn; those above may mean something: padding, an image."""
FIRST_DRAWN_TOKEN = 3
POSITIONS = 128
SOURCE_POSITIONS = 64
_TINY = 8

_LAYERS = re.compile(
    r"^(num_.*layers|num_layers_per_.*|n_layers?|.*_layers|layers|depth|.*_depth|num_blocks|num_.*_blocks|n_blocks?)$"
)
_NO_LAYERS = re.compile(r"window|adapter|feat|shared|interval|encode_proj|first|mlp_only|no_rope")
_KV_HEADS = re.compile(r"(key_value|kv|value|key)_heads$|^n_head_kv$")
_HEADS = re.compile(r"heads?$|^n_head")
_HEAD_SIZES = re.compile(r"head_dim|dim_head|d_head|head_size|^d_kv$|headdim|head_width|rotary_dim")
_STAYS = re.compile(
    r"vocab|token|kernel|patch|stride|window|expand|factor|(?<!du)ratio|channels_last|num_channels|in_channels|"
    r"conv_size|d_conv|mel|feature_size|rate|sampl|group|input_size|epoch|prob|temperature|base|theta|"
    r"bucket|distance|_loss|cost|version|eps|scale|n_fft|hop_length|shape_size|max_.*_size"
)
_INNER = re.compile(r"intermediate|ffn|inner|mlp|d_ff|ff_dim|feed_?forward")
_WIDTHS = re.compile(
    r"(size|dim|dims|dimension|width|channels|features|d_model|n_embd|n_inner|d_ff|d_state|planes|filters|units)$|"
    r"^(dim|hidden|d_|conv_dim|embed)|hidden|embed|projection"
)
_IMAGE = re.compile(
    r"(image|img|input|eval|pretrain_image|anchor_image)_size$|^image_(height|width)$"
)
_EXPERTS = re.compile(r"(num|n)_(.*_)?experts$|^moe_num_experts$")
_CHOSEN = re.compile(r"per_tok|top_?k$|^k$|moe_k$")
_POSITIONS = re.compile(
    r"max_.*position|n_positions|context_length|max_(target|text|seq)|position_embeddings$"
)
_RANKS = re.compile(r"rank$")
_QUERIES = re.compile(r"num_(.*_)?(queries|query_tokens|latents|proposals)$")
_CHUNKS = re.compile(
    r"^(mamba_)?chunk_size$|sliding_window|local_window|index_topk|attention_window"
)
_ROUNDS = re.compile(r"sinkhorn_iter|^max_text_length$")
"""Of a loop that a model runs by itself."""
_DOUBLED = ("num_filters", "encoder_hidden_size")
_LAYER_KINDS = re.compile(r"layers?_(block_)?types?$")
_INDICES = re.compile(r"ind(ex|ices|exes)|idx|layers")
_BACKBONE = ("out_features", "out_indices", "_out_features", "_out_indices", "stage_names")
_TOKEN_IDS = re.compile(
    r"token_(id|index|ids)$|^(audio|video|image|bo[a-z]|eo[a-z])_.*(id|index)$|_token$"
)
_FOLDED: Mapping[str, int] = {
    "num_kv_shared_layers": 0, "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1, "mm_tokens_per_image": 4,
    "n_shared_experts": 1, "num_mtp_layers": 0, "num_nextn_predict_layers": 0, "attn_layer_period": 2,
    "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1,
}  # fmt: skip
"""Sizes that follow from how few layers, experts and patches are left."""


def reduced(defaults: Mapping[str, Any], step: Reduction) -> dict[str, Any]:
    """Reduce a configuration and the configurations inside it."""
    return _with_small_ids(_Reduced(defaults, step).all())


class _Reduced:
    """One configuration on its way down."""

    def __init__(self, defaults: Mapping[str, Any], step: Reduction) -> None:
        self._given = defaults
        self._step = step
        self._heads = self._of(_HEADS) or 0
        self._taps = len(defaults.get("out_indices") or defaults.get("out_features") or ())
        self._layers = (
            0
            if _is_int_list(defaults.get("depths"))
            else next(
                (value for name, value in defaults.items() if _is_layers(name) and _is_int(value)),
                0,
            )
        )
        self._layers = self._layers or _listed_layers(defaults)
        self._kept = _kept_layers(defaults, self._layers, max(step.layers, self._taps))
        self._width = min(
            self._first("hidden_size", "d_model", "n_embd", "embed_dim", "dim") or step.width,
            step.width,
        )

    def all(self) -> dict[str, Any]:
        """Give the whole configuration."""
        made = {name: self._one(name, value) for name, value in self._given.items()}
        if self._layers > len(self._kept):
            made = {name: value for name, value in made.items() if name not in _BACKBONE}
            if self._taps:
                made["out_indices"] = list(range(len(self._kept) + 1))[-self._taps :]
        return made

    def _one(self, name: str, value: Any) -> Any:
        if name == "use_cache":
            return False
        if name == "head_dim" and value is None and self._heads:
            return self._head_size()
        if isinstance(value, dict):
            return self._inside(name, value)
        if isinstance(value, list | tuple):
            return self._list(name, list(value))
        return self._int(name, value) if _is_int(value) else value

    def _inside(self, name: str, value: dict[str, Any]) -> dict[str, Any]:
        if "rope" in name:
            return _rope(value, self._head_size() // 2)
        if name == "per_layer_config":
            found = {int(at): each for at, each in value.items()}
            return {str(new): found[old] for new, old in enumerate(self._kept) if old in found}
        if name.endswith("config") or "model_type" in value:
            return _Reduced(value, self._step).all()
        return value

    def _int(self, name: str, value: int) -> int:
        step = self._step
        if name in _FOLDED:
            return min(value, _FOLDED[name])
        if "feature_layer" in name:
            return min(value, step.layers - 1)
        for pattern, most in (
            (_EXPERTS, 4),
            (_CHOSEN, 2),
            (_QUERIES, _TINY),
            (_CHUNKS, _TINY),
            (_RANKS, step.width // 2),
            (_ROUNDS, 2),
        ):
            if pattern.search(name):
                return min(value, most)
        if _is_layers(name) and "depths" not in self._given:
            return min(value, len(self._kept) if value == self._layers else step.layers)
        if _IMAGE.search(name):
            return self._pixels(value)
        if "vocab" in name or "codebook_size" in name:
            return min(value, VOCABULARY)
        if _POSITIONS.search(name):
            return min(value, SOURCE_POSITIONS if "source" in name else POSITIONS)
        return self._width_of(name, value)

    def _width_of(self, name: str, value: int) -> int:
        step = self._step
        if name == "qk_head_dim":  # a part that is rotated, and one that is not
            return min(value, 2 * self._head_size())
        if _HEAD_SIZES.search(name):
            return min(value, self._head_size(name))
        if _KV_HEADS.search(name):
            return min(value, step.heads if value >= self._heads else step.heads // 2)
        if _HEADS.search(name):
            return min(value, step.heads)
        if name == "window_size" and _is_int_list(self._given.get("depths")):
            return min(value, 2)  # windows divide the smallest stage too
        if name in _DOUBLED and (ratios := self._ratios()):
            return min(value, max(4, step.width >> ratios))
        if name == "patch_embeds_hidden_size" and _is_int_list(self._given.get("depths")):
            return min(value, step.width >> (len(self._given["depths"]) - 1))
        if name == "upsample_initial_channel" or self._is_depthwise(name, value):
            return min(value, step.width)
        if _STAYS.search(name):
            return value
        if name == "embed_dim" and _is_int_list(self._given.get("depths")):
            return min(value, step.width // 4)  # it doubles from stage to stage
        if _INNER.search(name):
            return min(value, 2 * step.width)
        return min(value, step.width) if _WIDTHS.search(name) else value

    def _ratios(self) -> int:
        """Count the stages that double a width each."""
        names = ("downsampling_ratios", "upsampling_ratios")
        return next((len(self._given[name]) for name in names if self._given.get(name)), 0)

    def _is_depthwise(self, name: str, value: int) -> bool:
        """Say whether these are as many groups as channels, or what a stage takes from one that is reduced."""
        if name.endswith("_groups"):
            return value == self._given.get("hidden_size")
        return name.endswith("_in_channels") and not name.startswith("num")

    def _head_size(self, name: str = "") -> int:
        heads = min(self._heads, self._step.heads) or self._step.heads
        expand = self._first("expand", "mamba_expand")
        wide = self._width * expand if expand and ("mamba" in name or "model" not in name) else 0
        is_inner = wide and ("mamba" in name or not self._first("mamba_expand"))
        return max(1, (wide if is_inner else self._width) // heads)

    def _pixels(self, value: int) -> int:
        patch = self._first("patch_size", "patch_stride") or 1
        most = self._step.image
        return min(value, max(most // patch, 2) * patch)

    def _list(self, name: str, values: list[Any]) -> list[Any]:
        if self._layers and len(values) == self._layers and self._layers > len(self._kept):
            values = [values[at] for at in self._kept]
        if not values or not all(map(_is_int, values)):
            return [self._one(name, each) if isinstance(each, dict) else each for each in values]
        if _TOKEN_IDS.search(name):
            return values
        if "feature_layer" in name:
            return [min(each, self._step.layers - 1) for each in values]
        if _INDICES.search(name) and not _is_layers(name):
            return (
                [min(each, max(len(self._kept) - 1, 0)) for each in values]
                if self._layers
                else values
            )
        return self._sizes(name, values)

    def _sizes(self, name: str, values: list[int]) -> list[int]:
        if _IMAGE.search(name):
            return [self._pixels(each) for each in values]
        if "depth" in name or _is_layers(name):
            return [min(each, self._step.layers) for each in values]
        if _HEADS.search(name):
            return [each // min(values) for each in values]
        if name.endswith("in_channels") and (made := self._made_before(name, values)):
            return made
        if _STAYS.search(name) or not _WIDTHS.search(name) or max(values) <= self._step.width:
            return values
        if name == "out_channels" and _is_int_list(self._given.get("in_channels")):
            return values  # what one stage makes the next takes
        return [_in_eights(each * self._step.width / max(values)) for each in values]

    def _made_before(self, name: str, taken: list[int]) -> list[int]:
        """Give what the stages take where each takes what the one before makes; empty where they do not."""
        makes = name.removesuffix("in_channels") + "out_channels"
        made: Any = self._given.get(makes)
        if not _is_int_list(made) or taken[1:] != list(made[:-1]):
            return []
        return [taken[0], *self._sizes(makes, list(made))[:-1]]

    def _first(self, *names: str) -> int:
        return next((self._given[name] for name in names if _is_int(self._given.get(name))), 0)

    def _of(self, pattern: re.Pattern[str]) -> int | None:
        return next(
            (
                value
                for name, value in self._given.items()
                if pattern.search(name) and not _KV_HEADS.search(name) and _is_int(value)
            ),
            None,
        )


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_int_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_int, value))


def _is_layers(name: str) -> bool:
    return bool(_LAYERS.search(name)) and not _NO_LAYERS.search(name)


def _in_eights(size: float) -> int:
    return max(_TINY, round(size / _TINY) * _TINY)


def _listed_layers(given: Mapping[str, Any]) -> int:
    """Count layers where only a list of their kinds tells how many there are."""
    lists = (value for name, value in given.items() if _LAYER_KINDS.search(name))
    return max((len(each) for each in lists if isinstance(each, list | tuple)), default=0)


def _kept_layers(given: Mapping[str, Any], layers: int, most: int) -> tuple[int, ...]:
    """Choose layers such that each kind that a list by layer names occurs."""
    kinds = [
        tuple(value)
        for value in given.values()
        if isinstance(value, list | tuple)
        and len(value) == layers
        and all(isinstance(each, str) for each in value)
    ]
    rows = list(zip(*kinds, strict=True)) if kinds else []
    first = sorted({row: at for at, row in reversed(list(enumerate(rows)))}.values())
    more = [at for at in range(layers) if at not in first]
    return tuple(sorted([*first, *more[: max(0, most - len(first))]]))


def _rope(value: dict[str, Any], half: int) -> dict[str, Any]:
    """Cut the sections of a rotation, which share half of a head."""
    found = dict(value)
    for name, each in value.items():
        if isinstance(each, dict):
            found[name] = _rope(each, half)
        elif "section" in name and isinstance(each, list) and sum(each) > half:
            share = [max(1, size * half // sum(each)) for size in each]
            found[name] = [*share[:-1], half - sum(share[:-1])]
    return found


def _with_small_ids(made: dict[str, Any]) -> dict[str, Any]:
    """Give token ids that the smaller vocabulary does not hold places at its end, equal ones the same."""
    places: dict[int, int] = {}

    def placed(value: int) -> int:
        if value < DRAWN_TOKENS:
            return value
        return places.setdefault(value, VOCABULARY - 1 - len(places))

    def small(name: str, value: Any) -> Any:
        if isinstance(value, dict) and (name.endswith("config") or "model_type" in value):
            return {key: small(str(key), each) for key, each in value.items()}
        if not _TOKEN_IDS.search(name):
            return value
        if _is_int(value):
            return placed(value)
        is_ids = isinstance(value, list) and all(map(_is_int, value))
        return [placed(each) for each in value] if is_ids else value

    return {name: small(name, value) for name, value in made.items()}


def merged(configuration: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Lay an override over a configuration, inner configurations too."""
    made = dict(configuration)
    for name, value in changes.items():
        inner = made.get(name)
        made[name] = (
            merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
        )
    return made


def found_in(configuration: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Find the first value by one of these names that is no none: outside first, then in inner configurations."""
    for name in names:
        if configuration.get(name) is not None:
            return configuration[name]
    for value in configuration.values():
        if isinstance(value, dict) and (found := found_in(value, names)) is not None:
            return found
    return None
