"""What a person decides otherwise: rules off or with other limits, scopes grouped by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, get_args

import yaml

from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from flashinfer_bench.decompose.grouping.facts import Frame
    from flashinfer_bench.decompose.ir import Scope

Treatment = Literal["kernel", "fusion", "layer", "whole", "split"]
"""What a scope becomes: a node of that level; a layer that is not split up; or no node of its own."""

RULES: Mapping[str, Mapping[str, int]] = {
    "scans": {"min_rounds": 4},
    "composites": {"max_ops": 16, "max_outputs": 2},
    "idioms": {},
    "attention": {"max_kernels": 8},
    "add_norm": {},
    "qkv_rope": {},
    "chains": {"max_kernels": 5},
    "module_fusions": {"max_kernels": 5},
    "pool_split": {"max_kernels": 15},
    "repeat_split": {"max_kernels": 15},
    "root_fusion": {"max_kernels": 5, "max_kernels_one_heavy": 10},
    "root_layer": {"max_kernels": 15},
}
"""Each rule with its limits; docs/decompose.md says what they mean."""
IDIOMS = (
    "silu", "quick_gelu", "mish", "hardswish", "gelu", "gelu_tanh", "rms_norm", "l2_normalize", "l1_normalize",
    "exclusive_cumsum", "reverse_cumsum", "tril_matmul", "triu_matmul", "diag_matmul",
    "silu_and_mul",
)  # fmt: skip


@dataclass(frozen=True)
class ScopeRule:
    """What becomes of the scopes a pattern matches."""

    pattern: str
    """A module's path, a class or a function, with `*` and `?`."""
    treatment: Treatment | None = None
    name: str | None = None

    def matches(self, scope: Scope) -> bool:
        """Whether it speaks of this scope."""
        names = {scope.path} if scope.kind == "function" else {scope.path, scope.cls}
        return any(fnmatchcase(name, self.pattern) for name in names)


@dataclass(frozen=True)
class Overrides:
    """Decisions of a person; empty by default."""

    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    off: frozenset[str] = frozenset()
    idioms_off: frozenset[str] = frozenset()
    scopes: tuple[ScopeRule, ...] = ()
    origin: str = "overrides"

    def is_on(self, rule: str) -> bool:
        """Whether a rule applies."""
        return rule not in self.off

    def limit(self, rule: str, option: str) -> int:
        """A limit of a rule."""
        return self.limits.get(rule, {}).get(option, RULES[rule][option])

    def is_idiom_on(self, idiom: str) -> bool:
        """Whether an idiom is looked for."""
        return self.is_on("idioms") and idiom not in self.idioms_off

    def of(self, frame: Frame) -> ScopeRule | None:
        """What was decided for a frame; of several patterns the last that matches."""
        if not frame:
            return None
        found = [rule for rule in self.scopes if rule.matches(frame[-1])]
        return found[-1] if found else None

    def treatment(self, frame: Frame) -> Treatment | None:
        """What a frame is to become, if that was decided."""
        rule = self.of(frame)
        return rule.treatment if rule else None

    def name(self, frame: Frame) -> str | None:
        """What a frame is to be called, if that was decided."""
        rule = self.of(frame)
        return rule.name if rule else None

    def without_kernels(self) -> Overrides:
        """The same, with no scope made one kernel: what such a kernel holds can be told apart."""
        kept = tuple(rule for rule in self.scopes if rule.treatment != "kernel")
        return replace(self, scopes=kept)

    def check_used(self, frames: Iterable[Frame]) -> None:
        """Refuse a pattern that matches nothing in the model: it is a typing error."""
        scopes = {scope for frame in frames for scope in frame}
        known = {name for each in scopes for name in (each.path, each.cls) if name}
        for rule in self.scopes:
            if not any(rule.matches(scope) for scope in scopes):
                raise UsageError(
                    f"{self.origin}: scopes: {rule.pattern!r} matches no module or function of the model"
                    + _nearest(rule.pattern, known)
                )


def load_overrides(path: Path) -> Overrides:
    """Read a file of overrides."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"no overrides file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as text: {error}") from error
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        line = f":{place.line + 1}" if place else ""
        raise UsageError(
            f"{path}{line}: not YAML: {getattr(error, 'problem', None) or error}"
        ) from error
    return parse_overrides(content, origin=str(path))


def parse_overrides(content: Any, *, origin: str = "overrides") -> Overrides:
    """Make overrides of what a file holds, refusing what it cannot mean."""
    top = _mapping(content if content is not None else {}, origin)
    _known(top, ("rules", "scopes"), origin, "key")
    limits: dict[str, Mapping[str, int]] = {}
    off: set[str] = set()
    idioms_off: set[str] = set()
    rules = _mapping(top.get("rules") or {}, f"{origin}: rules")
    _known(rules, RULES, f"{origin}: rules", "rule")
    for rule, value in rules.items():
        where = f"{origin}: rules.{rule}"
        if isinstance(value, bool):
            off |= set() if value else {rule}
        elif rule == "idioms":
            idioms_off |= _idioms(value, where)
        else:
            limits[rule] = _limits(rule, value, where)
    scopes = _mapping(top.get("scopes") or {}, f"{origin}: scopes")
    return Overrides(
        limits=limits,
        off=frozenset(off),
        idioms_off=frozenset(idioms_off),
        scopes=tuple(
            _scope(name, value, f"{origin}: scopes.{name}") for name, value in scopes.items()
        ),
        origin=origin,
    )


def _idioms(value: Any, where: str) -> set[str]:
    choices = _mapping(value, where)
    _known(choices, IDIOMS, where, "idiom")
    for name, choice in choices.items():
        if not isinstance(choice, bool):
            raise UsageError(f"{where}.{name}: on or off expected, got {choice!r}")
    return {name for name, choice in choices.items() if not choice}


def _limits(rule: str, value: Any, where: str) -> Mapping[str, int]:
    limits = _mapping(value, where, "on, off or limits")
    _known(limits, RULES[rule], where, "limit")
    for name, number in limits.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise UsageError(f"{where}.{name}: a whole number above 0 expected, got {number!r}")
    return limits


def _scope(pattern: str, value: Any, where: str) -> ScopeRule:
    fields = {"as": value} if isinstance(value, str) else _mapping(value, where)
    _known(fields, ("as", "name"), where, "key")
    treatment = _treatment(fields.get("as"), where)
    name = fields.get("name")
    if name is not None and not (isinstance(name, str) and name.isidentifier()):
        raise UsageError(f"{where}.name: a name as in Python expected, got {name!r}")
    return ScopeRule(pattern=pattern, treatment=treatment, name=name)


def _treatment(value: Any, where: str) -> Treatment | None:
    for known in get_args(Treatment):
        if value == known:
            treatment: Treatment = known
            return treatment
    if value is None:
        return None
    raise UsageError(f"{where}: one of {', '.join(get_args(Treatment))} expected, got {value!r}")


def _mapping(value: Any, where: str, expected: str = "names with values") -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: {expected} expected, got {value!r}")
    for name in value:
        if not isinstance(name, str):
            raise UsageError(f"{where}: a name expected, got {name!r}; put it in quotes")
    return value


def _known(names: Iterable[str], known: Iterable[str], where: str, what: str) -> None:
    choices = list(known)
    for name in names:
        if name not in choices:
            near = _nearest(name, choices) or f"; there are {', '.join(choices)}"
            raise UsageError(f"{where}: no {what} named {name!r}{near}")


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
