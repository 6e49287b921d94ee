"""What every entity shares: strict fields, frozen values, one way to write JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

if TYPE_CHECKING:
    from collections.abc import Mapping

NonEmptyStr = Annotated[str, StringConstraints(min_length=1)]
NonNegativeInt = Annotated[int, Field(ge=0, le=2**63 - 1)]


def is_none(value: object) -> bool:
    """Tell whether an additive key is absent, and then not written."""
    return value is None


def is_empty(value: object) -> bool:
    """Tell whether an additive list or text is empty, and then not written."""
    return not value


class Entity(BaseModel):
    """A frozen value that refuses unknown keys; files are read more leniently (`parsing`)."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, ser_json_inf_nan="strings"
    )

    def to_json(self, *, indent: int | None = None) -> str:
        """Render as JSON; non-finite numbers become the strings `NaN` and `Infinity`."""
        return self.model_dump_json(indent=indent)

    def to_dict(self) -> dict[str, Any]:
        """Give what `to_json` writes as plain dictionaries, lists and numbers."""
        plain: dict[str, Any] = json.loads(self.to_json())
        return plain

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy with changes; what was derived from the old fields is derived anew."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied
