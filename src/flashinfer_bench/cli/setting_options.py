"""Options made from the list of settings."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args, get_origin

import click
from annotated_types import Ge, Gt, Le, Lt

from flashinfer_bench.bench.run_settings import known_settings
from flashinfer_bench.cli.commands import ManyOption
from flashinfer_bench.cli.options import SECONDS, SHARE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flashinfer_bench.bench.run_settings import Bound, Concern, KnownSetting

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")
_TYPES_OF_UNITS = {"share": (SHARE, "SHARE"), "seconds": (SECONDS, "SECONDS")}


def settings_about(*concerns: Concern, without: str = "") -> tuple[str, ...]:
    """Name the settings that have an option and are a matter of `concerns`, in the order of the list.

    `without`: a setting that the command cannot follow.
    """
    return tuple(
        name
        for name, each in known_settings().items()
        if each.option is not None and each.setting.concerns in concerns and name != without
    )


def setting_options(
    *names: str, helps: Mapping[str, str] | None = None, **defaults: Any
) -> Callable[[Decorated], Decorated]:
    """Add the options of settings; the command is given what was said of them as `settings`.

    What has no default here is left to the layers below. `helps` says what a setting means in this command.
    """
    known = known_settings()
    words = helps or {}

    def with_options(command: Decorated) -> Decorated:
        @functools.wraps(command)
        def with_settings(*args: Any, **values: Any) -> Any:
            said = _given({name: values.pop(name) for name in names})
            return command(*args, settings=values.pop("settings", {}) | said, **values)

        decorated: Any = with_settings
        for name in reversed(names):
            decorated = _option(known[name], words.get(name), defaults.get(name))(decorated)
        return cast("Decorated", decorated)

    return with_options


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what the user said; the rest is left to the layers below.

    >>> _given({"seed": 0, "label": None, "definitions": (), "audit": False})
    {'seed': 0, 'audit': False}
    """
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not None and value != ()
    }


def _option(known: KnownSetting, words: str | None, default: Any) -> Callable[[Any], Any]:
    """Make the option of one setting."""
    setting = known.setting
    names = [name for name in (known.option, setting.also, known.name) if name]
    shown = known.default_text if default is None else str(default)
    text = words or setting.help
    if shown and "[default: " not in text:
        text = f"{text}  [default: {shown}]"
    if known.plain_type is bool:
        return click.option(*names, is_flag=True, callback=_flagged(not known.default), help=text)
    if known.plain_type == list[str]:
        return click.option(*names, cls=ManyOption, metavar=setting.metavar, help=text)
    kind, metavar = _TYPES_OF_UNITS.get(setting.unit, (_plain_kind(known), setting.metavar))
    check = _checked(setting.check) if setting.check else None
    return click.option(
        *names, type=kind, metavar=metavar, default=default, callback=check, help=text
    )


def _plain_kind(known: KnownSetting) -> click.ParamType | None:  # type: ignore[type-arg]  # as in `options`
    if get_origin(known.plain_type) is Literal:
        return click.Choice(get_args(known.plain_type))
    if known.plain_type is int:
        return click.IntRange(**_range(known.bounds, step=1))
    return click.FloatRange(**_range(known.bounds)) if known.plain_type is float else None


def _range(bounds: Sequence[Bound], *, step: int = 0) -> dict[str, Any]:
    """Write bounds as click wants them; among whole numbers an open bound is the next number."""
    ends: dict[str, Any] = {}
    for bound in bounds:
        each: Any = bound  # its number is anything that can be compared
        match bound:
            case Ge():
                ends["min"] = each.ge
            case Gt():
                ends |= {"min": each.gt + step, "min_open": not step}
            case Le():
                ends["max"] = each.le
            case Lt():
                ends |= {"max": each.lt - step, "max_open": not step}
    return ends


def _flagged(value: bool) -> Callable[..., bool | None]:
    """Say `value` where the flag is given, and nothing where it is not."""
    return lambda _, __, is_given: value if is_given else None


def _checked(check: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda _, __, value: None if value is None else check(value)
