"""What a model's forward is given, made from its configuration: expressions that are tried until a run succeeds."""

from __future__ import annotations

import inspect
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.decompose.census.shrinking import (
    DRAWN_TOKENS,
    FIRST_DRAWN_TOKEN,
    VOCABULARY,
    found_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import nn

_BATCH = 2
_TOKENS = 16
_MOST_TRIES = 24
_FRAMES = 4
_SAMPLES = (4_000, 16_000)
_MODALITIES: Mapping[str, Sequence[str]] = {
    "text": ("input_ids",),
    "image": ("pixel_values",),
    "video": ("pixel_values_videos",),
    "audio": ("input_features", "input_values"),
    "time": ("past_values",),
}
_MISMATCH = re.compile(r"tokens: ?(\d+).{0,20}?features:? ?(\d+)", re.DOTALL)
_TOKEN_NAMES = {
    "audio": ("audio_token_id", "audio_token_index"),
    "video": ("video_token_id", "video_token_index"),
    "image": ("image_token_id", "image_token_index", "media_token_id"),
}


class InputsError(Exception):
    """No inputs were found on which the model runs; the message is what the first of them raised."""


@dataclass(frozen=True)
class SampleInputs:
    """Arguments of forward by name, each as an expression with `torch`."""

    expressions: Mapping[str, str]

    def drawn(self) -> dict[str, Any]:
        """Evaluate them."""
        torch.manual_seed(0)
        return {
            name: eval(text, {"torch": torch})  # noqa: S307  # our own text
            for name, text in self.expressions.items()
        }


def sample_inputs(
    model: nn.Module, configuration: Mapping[str, Any], given: Mapping[str, str]
) -> SampleInputs:
    """Find inputs on which a model runs; `given` says what an override file says of them."""
    return _ArgumentSearch(model, configuration, given).found()


class _ArgumentSearch:
    """Tries sets of arguments, and shapes of each."""

    def __init__(
        self, model: nn.Module, configuration: Mapping[str, Any], given: Mapping[str, str]
    ) -> None:
        self._model = model
        self._shapes = _ArgumentShapes(configuration)
        self._configuration = configuration
        self._given = given
        self._parameters = inspect.signature(model.forward).parameters
        self._first_error = ""
        self._seen: set[tuple[str, ...]] = set()

    def found(self) -> SampleInputs:
        """Give the first inputs that work."""
        waiting = list(self._sets())
        while waiting:
            names = waiting.pop(0)
            if not names or names in self._seen:
                continue
            self._seen.add(names)
            outcome = self._tried(names)
            if isinstance(outcome, SampleInputs):
                return outcome
            self._first_error = self._first_error or outcome
            asked = self._asked_for(outcome, names)
            if asked:
                waiting.insert(0, (*names, *asked))
        raise InputsError(self._first_error or "forward names no input that is known here")

    def _sets(self) -> Iterator[tuple[str, ...]]:
        """Yield sets of arguments: what every modality brings, then less."""
        required = tuple(
            name
            for name, each in self._parameters.items()
            if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
        )
        main = getattr(self._model, "main_input_name", "input_ids")
        main = tuple(main) if isinstance(main, list | tuple) else (main,)
        if self._given:
            yield tuple(self._given)
            return
        stated = getattr(self._model, "input_modalities", None) or ()
        modal = [
            next((name for name in _MODALITIES.get(each, ()) if name in self._parameters), "")
            for each in ((stated,) if isinstance(stated, str) else stated)
            if each != "video" or "image" not in stated
        ]
        main = tuple(name for name in main if name in self._parameters)
        yield self._with_decoder((*required, *main, *filter(None, modal)))
        yield self._with_decoder((*required, *main))
        yield self._with_decoder(required)
        for name in (
            "input_ids",
            "pixel_values",
            "input_features",
            "input_values",
            "inputs_embeds",
        ):
            if name in self._parameters:
                yield self._with_decoder((*required, name))

    def _with_decoder(self, names: Sequence[str]) -> tuple[str, ...]:
        more = list(dict.fromkeys(names))
        is_pair = self._configuration.get("is_encoder_decoder")
        if is_pair and "decoder_input_ids" in self._parameters:
            more.append("decoder_input_ids")
        if "pixel_values" in more and "image_grid_thw" in self._parameters:
            more.append("image_grid_thw")
        return tuple(dict.fromkeys(more))

    def _asked_for(self, error: str, names: Sequence[str]) -> list[str]:
        """Find arguments that an error speaks of."""
        words = set(re.findall(r"[a-z_0-9]+", error))
        known = [*self._parameters, "mm_token_type_ids"]  # some take it among their `kwargs`
        return [
            name
            for name in known
            if name in words and name not in names and self._shapes.variants(name)
        ][:1]

    def _tried(self, names: tuple[str, ...]) -> SampleInputs | str:
        """Run with each combination of shapes; gives what works, or what the first raised."""
        variants = [
            [self._given[name]] if name in self._given else self._shapes.variants(name)
            for name in names
        ]
        lacking = [name for name, each in zip(names, variants, strict=True) if not each]
        if lacking:
            return f"no rule for the input {', '.join(lacking)}"
        first = ""
        for chosen in itertools.islice(itertools.product(*variants), _MOST_TRIES):
            expressions = dict(zip(names, chosen, strict=True))
            error = self._error(expressions)
            if error and (matched := self._with_places(expressions, error)):
                expressions, error = matched, self._error(matched)
            if not error:
                return SampleInputs(expressions)
            first = first or error
        return first

    def _error(self, expressions: Mapping[str, str]) -> str:
        """Run once; empty when that succeeds."""
        try:
            with torch.no_grad():
                self._model(**SampleInputs(expressions).drawn())
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001  # the model's own code: anything may come
            return f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]
        return ""

    def _with_places(self, expressions: Mapping[str, str], error: str) -> dict[str, str] | None:
        """Give the text as many placeholders as an image or a sound has features."""
        found = _MISMATCH.search(error)
        if found is None or "input_ids" not in expressions:
            return None
        kind = next((each for each in _TOKEN_NAMES if each in error.lower()), "image")
        token = found_in(self._configuration, _TOKEN_NAMES[kind])
        features = int(found[2])
        if token is None or (features % _BATCH and "image_grid_thw" not in expressions):
            return None
        one = "image_grid_thw" in expressions
        rows = 1 if one else _BATCH
        places = f"torch.full(({rows}, {features // rows}), {token})"
        drawn = expressions["input_ids"].replace(f"({_BATCH},", f"({rows},", 1)
        found_ids = {**expressions, "input_ids": f"torch.cat([{places}, {drawn}], 1)"}
        if "mm_token_type_ids" in expressions:
            marks = f"torch.ones(({rows}, {features // rows}), dtype=torch.int64)"
            rest = f"torch.zeros(({rows}, {_TOKENS}), dtype=torch.int64)"
            found_ids["mm_token_type_ids"] = f"torch.cat([{marks}, {rest}], 1)"
        return found_ids


class _ArgumentShapes:
    """Knows by name what shapes an argument may have under a configuration."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self._of = configuration

    def variants(self, name: str) -> list[str]:
        """Give expressions for an argument, the likeliest first; none where nothing is known of it."""
        if name.endswith("input_ids") or name in ("tokens", "text_ids", "codec_ids"):
            return [self._ids()]
        maker = getattr(self, f"_{name}", None)
        if maker is not None:
            found: list[str] = maker()
            return found
        return []

    def _number(self, *names: str, otherwise: int) -> int:
        found = found_in(self._of, names)
        if isinstance(found, list | tuple):
            found = found[0] if found else None
        return found if isinstance(found, int) else otherwise

    def _ids(self) -> str:
        most = min(DRAWN_TOKENS, self._number("vocab_size", otherwise=VOCABULARY))
        return f"torch.randint({FIRST_DRAWN_TOKEN}, {most}, ({_BATCH}, {_TOKENS}))"

    def _pixel_values(self) -> list[str]:
        vision = found_in(self._of, ("vision_config", "backbone_config")) or self._of
        inside = _ArgumentShapes(vision if isinstance(vision, dict) else self._of)
        channels = inside._number(
            "num_channels", "in_channels", "in_chans", "image_channels", otherwise=3
        )
        height, width = inside._sides()
        patch = inside._number("patch_size", otherwise=16)
        times = inside._number("temporal_patch_size", otherwise=1)
        patches = f"torch.randn(16, {channels * patch * patch * times})"
        frames = inside._number("num_frames", "frames_per_clip", "temporal_size", otherwise=_FRAMES)
        plain = f"torch.randn({_BATCH}, {channels}, {height}, {width})"
        tiles = f"torch.randn({_BATCH}, 1, {channels}, {height}, {width})"
        video = f"torch.randn({_BATCH}, {frames}, {channels}, {height}, {width})"
        if "spatial_merge_size" in str(self._of):
            return [patches, plain, tiles]
        pairs = f"torch.randn({_BATCH}, 2, {channels}, {height}, {width})"
        larger = f"torch.randn({_BATCH}, {channels}, {2 * height}, {2 * width})"
        return [plain, video, tiles, pairs, patches, larger]

    def _pixel_values_videos(self) -> list[str]:
        height, width = self._sides()
        frames = self._number("num_frames", "frames_per_clip", otherwise=_FRAMES)
        return [f"torch.randn({_BATCH}, {frames}, 3, {height}, {width})"]

    def _sides(self) -> tuple[int, int]:
        found = found_in(self._of, ("image_size", "img_size", "input_size", "eval_size"))
        if isinstance(found, int):
            return found, found
        if isinstance(found, list | tuple) and len(found) > 1:
            return int(found[0]), int(found[1])
        if isinstance(found, dict):
            return found.get("height", 64), found.get("width", 64)
        return 64, 64

    def _image_grid_thw(self) -> list[str]:
        return ["torch.tensor([[1, 4, 4]])"]

    def _image_sizes(self) -> list[str]:
        height, width = self._sides()
        return [f"torch.tensor([[{height}, {width}]] * {_BATCH})"]

    def _pixel_mask(self) -> list[str]:
        height, width = self._sides()
        return [f"torch.ones({_BATCH}, {height}, {width}, dtype=torch.int64)"]

    def _pixel_attention_mask(self) -> list[str]:
        height, width = self._sides()
        return [
            f"torch.ones({_BATCH}, 1, {height}, {width}, dtype=torch.bool)",
            *self._pixel_mask(),
        ]

    def _mels(self) -> int:
        return self._number(
            "num_mel_bins", "feature_size", "input_feat_per_channel", "n_mels", "feature_projection_input_dim",
            "input_dim", "num_mels", otherwise=80,
        )  # fmt: skip

    def _input_features(self) -> list[str]:
        mels = self._mels()
        positions = self._number("max_source_positions", otherwise=0)
        length = 2 * positions if positions else 64
        return [
            f"torch.randn({_BATCH}, {mels}, {length})",
            f"torch.randn({_BATCH}, {length}, {mels})",
            f"torch.randn({_BATCH}, 1, {length}, {mels})",
            f"torch.randn({_BATCH}, {_SAMPLES[0]})",
        ]

    def _input_features_mask(self) -> list[str]:
        length = 2 * self._number("max_source_positions", otherwise=32)
        return [f"torch.ones({_BATCH}, {length}, dtype=torch.int64)"]

    def _feature_attention_mask(self) -> list[str]:
        return self._input_features_mask()

    def _input_values(self) -> list[str]:
        length = self._number("max_length", otherwise=64)
        channels = self._number("audio_channels", otherwise=1)
        return [
            *(f"torch.randn({_BATCH}, {samples})" for samples in _SAMPLES),
            *(f"torch.randn({_BATCH}, {channels}, {samples})" for samples in _SAMPLES),
            f"torch.randn({_BATCH}, {length}, {self._mels()})",
        ]

    def _padding_mask(self) -> list[str]:
        return [f"torch.ones({_BATCH}, {samples}, dtype=torch.bool)" for samples in _SAMPLES]

    def _bbox(self) -> list[str]:
        return [
            f"torch.tensor([1, 2, 5, 6]).repeat({_BATCH}, {_TOKENS}, 1)",
            f"torch.rand({_BATCH}, {_TOKENS}, 4)",
            f"torch.rand({_BATCH}, {_TOKENS}, 8)",
        ]

    def _attention_mask(self) -> list[str]:
        return [f"torch.ones({_BATCH}, {_TOKENS}, dtype=torch.int64)"]

    def _mm_token_type_ids(self) -> list[str]:
        return [f"torch.zeros(({_BATCH}, {_TOKENS}), dtype=torch.int64)"]

    def _inputs_embeds(self) -> list[str]:
        width = self._number("hidden_size", "d_model", "n_embd", otherwise=64)
        return [f"torch.randn({_BATCH}, {_TOKENS}, {width})"]

    _hidden_states = _inputs_embeds
    _visual_embeds = _inputs_embeds

    def _inputs(self) -> list[str]:
        return [self._ids(), *self._inputs_embeds()]

    def _past_values(self) -> list[str]:
        length = self._number("context_length", "prediction_length", otherwise=32)
        lags = found_in(self._of, ("lags_sequence",)) or [0]
        channels = self._number("num_input_channels", otherwise=1)
        return [
            f"torch.randn({_BATCH}, {length}, {channels})",
            f"torch.randn({_BATCH}, {length + max(lags)})",
            f"torch.randn({_BATCH}, {length})",
        ]

    def _past_observed_mask(self) -> list[str]:
        return [each.replace("randn", "ones") for each in self._past_values()]

    def _future_values(self) -> list[str]:
        return [f"torch.randn({_BATCH}, {self._number('prediction_length', otherwise=8)})"]

    def _past_time_features(self) -> list[str]:
        past = self._past_values()[1].removesuffix(")")
        return [f"{past}, {self._number('num_time_features', otherwise=0)})"]

    def _future_time_features(self) -> list[str]:
        length = self._number("prediction_length", otherwise=8)
        return [
            f"torch.randn({_BATCH}, {length}, {self._number('num_time_features', otherwise=0)})"
        ]

    def _bool_masked_pos(self) -> list[str]:
        height, width = self._sides()
        patch = self._number("patch_size", otherwise=16)
        return [f"torch.zeros({_BATCH}, {(height // patch) * (width // patch)}, dtype=torch.bool)"]

    def _flattened_patches(self) -> list[str]:
        width = self._number("patch_embed_hidden_size", otherwise=768)
        return [f"torch.cat([torch.ones({_BATCH}, 16, 2), torch.randn({_BATCH}, 16, {width})], 2)"]

    def _audio_values(self) -> list[str]:
        return [f"torch.randn({_BATCH}, 1, {_SAMPLES[0]})"]

    def _input_points(self) -> list[str]:
        return [f"torch.rand({_BATCH}, 1, 1, 2)"]

    def _spectrogram(self) -> list[str]:
        return [f"torch.randn({_BATCH}, 32, {self._mels()})"]

    def _audio_codes(self) -> list[str]:
        return [
            f"torch.randint(0, 32, ({_BATCH}, {self._number('num_codebooks', otherwise=8)}, 16))"
        ]
