"""Which architectures a library registers, and the model class of each; runs in the process that has the library."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_MODELING = "transformers.models.auto.modeling_auto"
_MOST_CLASSES = 2


@dataclass(frozen=True, slots=True)
class Registered:
    """What a library registers: names of architectures, and its version."""

    version: str
    names: tuple[str, ...]


def registered(library: str) -> dict[str, Any]:
    """List the architectures of a library that have modelling code of their own, as plain data."""
    names = _modules() if library == "transformers" else _vision_modules()
    version = importlib.import_module(library).__version__
    return {"version": version, "names": sorted(names)}


@cache
def _modules() -> Mapping[str, str]:
    """Map folders of `transformers.models` that hold modelling code to their configuration in the registry.

    The registry names several configurations of one folder, as for the text and the image of a pair: the one
    called like the folder speaks for it, else the first.
    """
    auto: Any = importlib.import_module("transformers.models.auto.configuration_auto")
    found: dict[str, str] = {}
    for model_type in auto.CONFIG_MAPPING_NAMES:
        folder = auto.model_type_to_module_name(model_type)
        if folder not in found or model_type.replace("-", "_") == folder.rpartition(".")[2]:
            found[folder] = model_type
    return {folder: each for folder, each in found.items() if _has_modelling_code(folder)}


def _has_modelling_code(folder: str) -> bool:
    home = importlib.util.find_spec("transformers")
    assert home is not None
    assert home.origin is not None
    place = Path(home.origin).parent / "models" / folder.replace(".", "/")
    return any(place.glob("modeling_*.py"))


def configuration_class(name: str, model: str | None = None) -> Any:
    """Give the class of an architecture's configuration, or that of one model of its folder.

    A module inside a model has none of its own: it is made of the architecture's.
    """
    own = model is not None and getattr(_model_named(name, model), "config_class", None)
    if own:
        return own
    auto: Any = importlib.import_module("transformers.models.auto.configuration_auto")
    return auto.CONFIG_MAPPING[_modules()[name]]


def _model_named(name: str, model: str) -> Any:
    """Find a model's class among an architecture's modules."""
    module = f"transformers.models.{name}.modeling_{name.rpartition('.')[2]}"
    return getattr(importlib.import_module(module), model)


def model_classes(configuration: Any, name: str, model: str | None = None) -> list[Any]:
    """Give the classes that the library makes of a configuration: the base model, then one with a head."""
    if model is not None:
        return [_model_named(name, model)]
    auto = importlib.import_module(_MODELING)
    mappings = ["MODEL_MAPPING", *(each for each in vars(auto) if each.endswith("_MAPPING"))]
    found: dict[Any, None] = {}
    for each in mappings:
        cls = getattr(auto, each).get(type(configuration), None)
        found |= dict.fromkeys(cls if isinstance(cls, list | tuple) else [cls] if cls else [])
    return list(found)[:_MOST_CLASSES]


@cache
def _vision_modules() -> Mapping[str, str]:
    """Map modules of `torchvision.models` to the first builder that each registers."""
    models: Any = importlib.import_module("torchvision.models")
    found: dict[str, str] = {}
    for builder in models.list_models():
        module = models.get_model_builder(builder).__module__.removeprefix("torchvision.models.")
        found.setdefault(module, builder)
    return found


def vision_builder(name: str) -> str:
    """Give the name by which `torchvision.models.get_model` makes an architecture."""
    return _vision_modules()[name]
