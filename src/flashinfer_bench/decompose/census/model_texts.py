"""An architecture as a file in KernelBench's format: its tiny configuration, its inputs, nothing fetched."""

from __future__ import annotations

import itertools
import json
import os
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pprint import pformat
from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.decompose.census.registry import (
    configuration_class,
    model_classes,
    vision_builder,
)
from flashinfer_bench.decompose.census.sample_inputs import InputsError, SampleInputs, sample_inputs
from flashinfer_bench.decompose.census.shrinking import STEPS, merged, reduced
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_PARAMETERS = 60_000_000
_OVERRIDES = "overrides.json"


class NoTinyModelError(UsageError):
    """No configuration was found that runs; the message names the stage and what was raised."""


@dataclass(frozen=True, slots=True)
class ModelText:
    """A model's file and what is said of it."""

    text: str
    model: str
    """Name of its class."""
    parameters: int
    step: int
    """Which step of the trial ran, from 1."""
    is_overridden: bool


@cache
def overrides() -> Mapping[str, Any]:
    """Read what the rule is told about single architectures."""
    text = (files("flashinfer_bench.decompose.census") / _OVERRIDES).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def model_text(library: str, name: str) -> ModelText:
    """Derive a tiny model and write its file."""
    if library == "torchvision":
        return _vision_text(name)
    os.environ["HF_HUB_OFFLINE"] = "1"
    return _transformers_text(name)


def _transformers_text(name: str) -> ModelText:
    override = overrides().get(name, {})
    defaults = _defaults(name, override)
    first = ""
    for choice, (number, step) in itertools.product(range(2), enumerate(STEPS, start=1)):
        wanted = merged(reduced(defaults, step), override.get("configuration", {}))
        try:
            made = _made(name, wanted, override, choice)
        except NoTinyModelError as error:
            first = first or str(error)
            continue
        return ModelText(*made, step=number, is_overridden=bool(override))
    raise NoTinyModelError(first)


def _defaults(name: str, override: Mapping[str, Any]) -> dict[str, Any]:
    """Give the architecture's own defaults as plain data."""
    cls = configuration_class(name, override.get("class"))
    try:
        found: dict[str, Any] = cls(**override.get("defaults", {})).to_dict()
    except Exception as error:
        raise NoTinyModelError(f"configuration: {_said(error)}") from error
    return found


def _made(
    name: str, wanted: Mapping[str, Any], override: Mapping[str, Any], choice: int
) -> tuple[str, str, int]:
    """Build and run a model; gives the text of its file, its class and its size."""
    try:
        configuration = configuration_class(name, override.get("class")).from_dict(dict(wanted))
        classes = model_classes(configuration, name, override.get("class"))
        if len(classes) <= choice:
            raise NoTinyModelError("configuration: no class of the library takes it")  # noqa: TRY301
        cls = classes[choice]
        parameters = _size(cls, configuration)
        torch.manual_seed(0)
        model = cls(configuration).eval()
    except NoTinyModelError:
        raise
    except MemoryError:
        raise
    except Exception as error:
        raise NoTinyModelError(f"construction: {_said(error)}") from error
    plain = configuration.to_dict()
    try:
        inputs = sample_inputs(model, plain, override.get("inputs", {}))
    except InputsError as error:
        raise NoTinyModelError(f"inputs: {error}") from error
    kept = json.loads(json.dumps(configuration.to_diff_dict(), sort_keys=True, default=str))
    return _file_text(name, type(configuration), cls, kept, inputs), cls.__name__, parameters


def _size(cls: Any, configuration: Any) -> int:
    """Count parameters without memory for them."""
    with torch.device("meta"):
        size: int = sum(each.numel() for each in cls(configuration).parameters())
    if size > _MOST_PARAMETERS:
        raise NoTinyModelError(
            f"construction: {size:,} parameters are left, {_MOST_PARAMETERS:,} at most"
        )
    return size


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]


_TEXT = '''"""{name}, tiny: derived from the defaults of {configuration}, with random weights."""

import torch
from torch import nn
from {module} import {cls}
from {home} import {configuration}

{numbers}CONFIGURATION = {values}


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [one for each in value for one in tensors(each)] if isinstance(value, (list, tuple)) else []


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = {cls}({configuration}.from_dict(CONFIGURATION)).eval()

    def forward(self, {names}):
        made = tensors(self.model({passed}))
        return tuple(dict.fromkeys(each for each in made if each.numel()))


def get_inputs():
    return [
{inputs}
    ]


def get_init_inputs():
    return []
'''


def _file_text(
    name: str, configuration: Any, cls: Any, values: Mapping[str, Any], inputs: SampleInputs
) -> str:
    text = pformat(values, sort_dicts=True, width=100)
    return _TEXT.format(
        name=name,
        numbers='inf = float("inf")\n' if re.search(r"\binf\b", text) else "",
        configuration=configuration.__name__,
        home=configuration.__module__,
        cls=cls.__name__,
        module=cls.__module__,
        values=text,
        names=", ".join(inputs.expressions),
        passed=", ".join(_passed(cls, inputs)),
        inputs="\n".join(f"        {each}," for each in inputs.expressions.values()),
    )


def _passed(cls: Any, inputs: SampleInputs) -> list[str]:
    """Give the arguments of a call; a module inside a model knows no `return_dict`."""
    given = [f"{each}={each}" for each in inputs.expressions]
    return [*given, "return_dict=True"] if hasattr(cls, "config_class") else given


_VISION_TEXT = '''"""{name} of torchvision, with random weights."""

import torch
import torchvision
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = torchvision.models.get_model("{builder}", {given}).eval()

    def forward(self, image):
        made = self.model({passed})
        while isinstance(made, (dict, list, tuple)):
            values = list(made.values()) if isinstance(made, dict) else made
            made = values[0]
        return made


def get_inputs():
    return [torch.randn({shape})]


def get_init_inputs():
    return []
'''
_VISION_SHAPES = (
    (1, 3, 64, 64),
    (1, 3, 128, 128),
    (1, 3, 224, 224),
    (1, 3, 8, 64, 64),
    (1, 3, 16, 112, 112),
)
_VISION_GIVEN = (
    "weights=None, num_classes=10",
    "weights=None, weights_backbone=None, num_classes=10",
    "weights=None",
)


def _vision_text(name: str) -> ModelText:
    """Build a model of torchvision; only its images and classes can be made smaller."""
    builder = vision_builder(name)
    first = ""
    for number, (given, shape) in enumerate(
        ((given, shape) for shape in _VISION_SHAPES for given in _VISION_GIVEN), start=1
    ):
        passed = "[image[0]]" if name.startswith("detection.") else "image"
        text = _VISION_TEXT.format(
            name=name, builder=builder, given=given, passed=passed, shape=", ".join(map(str, shape))
        )
        space: dict[str, Any] = {}
        try:
            exec(text, space)  # noqa: S102  # our own text
            model = space["Model"]()
            with torch.no_grad():
                model(*space["get_inputs"]())
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001  # the library's own code: anything may come
            first = first or _said(error)
            continue
        size = sum(each.numel() for each in model.parameters())
        return ModelText(text, type(model.model).__name__, size, number, is_overridden=False)
    raise NoTinyModelError(f"inputs: {first}")
