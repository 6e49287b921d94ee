"""By what the two traces of a job were judged: where that differs, right and wrong do not compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer_bench.bench.run_settings import LayeredSettings, settings_of

if TYPE_CHECKING:
    from flashinfer_bench.data.rows import TraceRow


def judged_otherwise(old: TraceRow, new: TraceRow) -> tuple[str, ...] | None:
    """Name what differs, such as `definition` or `rtol 0.01 -> 0.5`; None where a trace does not say.

    A definition holds the reference, shapes and judge. Settings hold the tolerances, those of a workload too.
    """
    if None in {old.definition_hash, new.definition_hash}:
        return None
    definition = ("definition",) if old.definition_hash != new.definition_hash else ()
    return (*definition, *_changed_settings(old, new))


def _changed_settings(old: TraceRow, new: TraceRow) -> list[str]:
    if old.settings is None or new.settings is None:
        return []
    found = []
    for name, known in settings_of(LayeredSettings).items():
        one, two = (each.settings.get(name, known.default) for each in (old, new))  # type: ignore[union-attr]  # not None
        if known.setting.concerns == "judged" and one != two:
            found.append(f"{name} {_text(one)} -> {_text(two)}")
    return found


def _text(value: object) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
