"""How a solution is held: the level asked for, where it may write, and what could not be put in force."""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["off", "process", "container"]
Measure = Literal["files", "network", "signals", "processes", "capabilities", "limits"]


class Confinement(msgspec.Struct, frozen=True):
    """What the fork server must know to hold a contestant before a line of its solution runs."""

    level: Level
    device: str
    scratch: str = ""
    """Its temporary folder, gone with the process."""
    build_folder: str = ""
    """Its own entry of the build cache; the only folder beside `scratch` that it may write to."""
    hidden: tuple[str, ...] = ()
    """What it must not read even where the folder around it is readable: datasets, others' builds."""


class Missing(msgspec.Struct, frozen=True):
    """A measure that is not in force, and why."""

    measure: Measure
    reason: str


class Held(msgspec.Struct, frozen=True):
    """What held a solution."""

    level: Level
    missing: tuple[Missing, ...] = ()

    @property
    def name(self) -> str:
        """What a trace calls it: the level only if every measure of it was in force."""
        return "partial" if self.missing and self.level != "off" else self.level
