"""Metamorphic properties: how a definition's outputs must change when its inputs are changed in a known way.

The idea: T. Y. Chen, S. C. Cheung, S. M. Yiu, Metamorphic testing: a new approach for generating next test cases,
HKUST-CS98-01, 1998.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Discriminator, Field, StrictInt

from flashinfer_bench.data.entity import Entity, NonEmptyStr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashinfer_bench.data.shapes import TensorSpec


class PermutationProperty(Entity):
    """The entries of an axis in another order give the same results in that order."""

    type: Literal["permutation"] = "permutation"
    """Marks it."""
    axis: NonEmptyStr
    """The axis, such as the batch."""

    @property
    def label(self) -> str:
        """Its name in findings."""
        return f"permutation of {self.axis}"


class SplitProperty(Entity):
    """Results along an axis depend on their own entries only: halves of two calls make a third."""

    type: Literal["split"] = "split"
    """Marks it."""
    axis: NonEmptyStr
    """The axis, such as the batch."""

    @property
    def label(self) -> str:
        """Its name in findings."""
        return f"split of {self.axis}"


class ScalingProperty(Entity):
    """Inputs twice as large give outputs 2**degree times as large: the function is homogeneous in them."""

    type: Literal["scaling"] = "scaling"
    """Marks it."""
    inputs: list[NonEmptyStr] = Field(min_length=1)
    """The inputs that are scaled together."""
    degree: Annotated[StrictInt, Field(ge=-8, le=8)] = 1
    """How often the factor comes out; 0 where outputs do not change."""

    @property
    def label(self) -> str:
        """Its name in findings."""
        return f"scaling of {', '.join(self.inputs)}"


Property = Annotated[PermutationProperty | SplitProperty | ScalingProperty, Discriminator("type")]


def fault_of(
    declared: Property, inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec]
) -> str | None:
    """Say why a property cannot be held against a definition; None where it can."""
    if isinstance(declared, ScalingProperty):
        return next(filter(None, (_scaled(name, inputs) for name in declared.inputs)), None)
    axis = declared.axis
    having = {name: spec for name, spec in inputs.items() if axis in (spec.shape or ())}
    if not having or not any(axis in (spec.shape or ()) for spec in outputs.values()):
        return f"axis {axis!r} must be in the shape of an input and of an output"
    for name, spec in (having | dict(outputs)).items():
        if (spec.shape or ()).count(axis) > 1:
            return f"axis {axis!r} is twice in the shape of {name!r}"
    fixed = [name for name, spec in having.items() if spec.role != "dynamic"]
    if fixed:
        return f"axis {axis!r} is in {fixed[0]!r}, which keeps its content for a whole trial"
    return None


def _scaled(name: str, inputs: Mapping[str, TensorSpec]) -> str | None:
    spec = inputs.get(name)
    if spec is None:
        return f"there is no input {name!r}"
    if spec.shape is None or spec.dtype not in ("float64", "float32", "float16", "bfloat16"):
        return f"input {name!r} is no tensor of floats of 16 bits or more"
    if spec.role != "dynamic":
        return f"input {name!r} keeps its content for a whole trial"
    return None
