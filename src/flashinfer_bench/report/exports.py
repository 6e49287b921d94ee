"""Traces as tables for other programs: columns whose names and order stay."""

from __future__ import annotations

import csv
import importlib
import io
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from flashinfer_bench.errors import DatasetError, MissingPackageError, UnknownNameError, UsageError
from flashinfer_bench.text.tables import printable, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flashinfer_bench.data.rows import TraceRow

# An underscore within a word is one: names are full of them.
_MARKUP = re.compile(r"[\\|*`\[\]~]|(?<![^\W_])_|_(?![^\W_])")
_FORMULA = re.compile(r"[=+\-@\t\n]")
Kind = Literal["text", "number", "count", "flag", "lengths", "versions"]


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """A column: its name, what it holds, and what of a trace it shows."""

    name: str
    kind: Kind
    about: str
    value: Callable[[TraceRow], Any]


def columns(op_types: Mapping[str, str]) -> tuple[ExportColumn, ...]:
    """Give all columns; new ones are only ever added at the end."""
    return (
        _same("definition", "text", "name of the definition"),
        ExportColumn(
            "op_type", "text", "its family of operations", lambda row: op_types.get(row.definition)
        ),
        _same("solution", "text", "name of the solution"),
        _same("author", "text", "who wrote it; empty if the dataset lacks the solution"),
        _same("language", "text", "what it is written in"),
        _same("workload_uuid", "text", "identity of the workload"),
        _same("axes", "lengths", "its sizes, by axis"),
        _same("status", "text", "how the job ended"),
        _same("hardware", "text", "device by which reports group"),
        _same("timestamp", "text", "when it ended, ISO-8601"),
        _same("latency_ms", "number", "median time of a call of the solution"),
        *_bounds("latency_ms", "latency_interval_ms", "95% interval"),
        _same("reference_latency_ms", "number", "median time of a call of the reference"),
        *_bounds("reference_latency_ms", "reference_interval_ms", "95% interval"),
        _same("speedup", "number", "reference over solution"),
        *_bounds("speedup", "speedup_interval", "95% interval"),
        _same("latency_kind", "text", "device, call or wall"),
        _same("is_cold", "flag", "whether caches were evicted between samples"),
        _same("block_count", "count", "alternating blocks kept"),
        _same("sol_fraction", "number", "share of the device's speed of light"),
        _same("max_absolute_error", "number", "largest absolute error"),
        _same("max_relative_error", "number", "largest relative error"),
        _same("violation_count", "count", "violations the judge lists"),
        _same("note_count", "count", "notes on the trace"),
        _same("interpreted", "flag", "whether Triton was interpreted: such times mean nothing"),
        _same("threads", "count", "CPU threads"),
        _same("solution_hash", "text", "`Solution.hash()` of what ran"),
        _same("definition_hash", "text", "`Definition.hash()` of what it was judged by"),
        _same("config_hash", "text", "hash of the settings that change results"),
        _same("trace_id", "text", "identity of the trace; raw samples carry it too"),
        _same("run_id", "text", "the run that made it"),
        _same("run_label", "text", "name the user gave the run"),
        _same("commit", "text", "git commit of the solution, else revision of the dataset"),
        _same("libs", "versions", "versions of the libraries involved"),
        ExportColumn(
            "task_notes",
            "text",
            "how the task itself is weak, as codes",
            lambda row: ", ".join(row.task_notes) or None,
        ),
        _same("peak_memory_bytes", "count", "most memory the solution held"),
        _same("build_ms", "number", "time until the solution could be called"),
        _same("launch", "text", "graph where calls were replays of CUDA graphs"),
        _same("launches_per_call", "number", "kernels, copies and fills a call gave the device"),
        _same("host_overhead_ms", "number", "time a call kept the host"),
        _same("hot_latency_ms", "number", "latency on hot caches, where both were timed"),
        _same("energy_mj", "number", "millijoules of a call"),
        *_bounds("energy_mj", "energy_interval_mj", "95% interval"),
    )


IN_MARKDOWN = (
    "definition",
    "solution",
    "author",
    "axes",
    "hardware",
    "status",
    "interpreted",
    "latency_ms",
    "reference_latency_ms",
    "speedup",
    "speedup_low",
    "speedup_high",
)


def chosen(all_columns: Sequence[ExportColumn], names: Sequence[str]) -> list[ExportColumn]:
    """Pick columns by name, in the order asked for."""
    by_name = {column.name: column for column in all_columns}
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"column {name!r} is named twice")
        if name not in by_name:
            raise UnknownNameError("column", name, by_name)
    return [by_name[name] for name in names]


def as_csv(rows: Iterable[TraceRow], shown: Sequence[ExportColumn]) -> bytes:
    """Write RFC 4180 with a head; what is not known is empty, mappings are JSON, no text is a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([column.name for column in shown])
    for row in rows:
        writer.writerow([_csv_cell(column.value(row)) for column in shown])
    return text.getvalue().encode()


def formulas(rows: Iterable[TraceRow], shown: Sequence[ExportColumn]) -> list[str]:
    """Find texts that a spreadsheet would take for a formula and run, if they had no apostrophe before them."""
    texts = (column.value(row) for row in rows for column in shown if column.kind == "text")
    return list(dict.fromkeys(text for text in texts if text and _FORMULA.match(text)))


def as_markdown(rows: Iterable[TraceRow], shown: Sequence[ExportColumn]) -> bytes:
    """Write a table for a README or a pull request; numbers have four digits."""
    aligned = ["---:" if column.kind in {"number", "count"} else "---" for column in shown]
    lines = [[column.name for column in shown], aligned]
    lines += [[_markdown_cell(column.value(row)) for column in shown] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).encode()


def as_parquet(rows: Iterable[TraceRow], shown: Sequence[ExportColumn]) -> bytes:
    """Write a Parquet file: numbers are doubles and 64-bit integers, mappings are maps."""
    arrow, parquet = _pyarrow()
    types = {
        "text": arrow.string(),
        "number": arrow.float64(),
        "count": arrow.int64(),
        "flag": arrow.bool_(),
        "lengths": arrow.map_(arrow.string(), arrow.int64()),
        "versions": arrow.map_(arrow.string(), arrow.string()),
    }
    kept = list(rows)
    arrays = []
    for column in shown:
        values = [_arrow_value(column.value(row)) for row in kept]
        try:
            arrays.append(arrow.array(values, types[column.kind]))
        except (OverflowError, arrow.ArrowInvalid) as error:
            raise DatasetError(
                f"column {column.name!r} has a value that Parquet cannot hold: {error}"
            ) from None
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.table(arrays, names=[column.name for column in shown]), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _same(name: str, kind: Kind, about: str) -> ExportColumn:
    return ExportColumn(name, kind, about, lambda row: getattr(row, name))


def _bounds(name: str, interval: str, about: str) -> tuple[ExportColumn, ExportColumn]:
    stem, unit = (name.removesuffix("_ms"), "_ms") if name.endswith("_ms") else (name, "")

    def bound(index: int) -> Callable[[TraceRow], Any]:
        return lambda row: None if (found := getattr(row, interval)) is None else found[index]

    return (
        ExportColumn(f"{stem}_low{unit}", "number", f"lower end of the {about}", bound(0)),
        ExportColumn(f"{stem}_high{unit}", "number", f"upper end of the {about}", bound(1)),
    )


def _csv_cell(value: object) -> str:
    """Write a cell for people and spreadsheets: what cannot be seen is shown, and an apostrophe says what is text."""
    text = visible(_cell(value))
    return f"'{text}" if isinstance(value, str) and _FORMULA.match(text) else text


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float() if not math.isfinite(value):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case float():
            return repr(value)
        case dict():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


def _markdown_cell(value: object) -> str:
    match value:
        case float() if math.isfinite(value):
            text = f"{value:.4g}"
        case dict():
            text = ", ".join(f"{name}={each}" for name, each in value.items())
        case _:
            text = _cell(value)
    return markdown_text(text)


def markdown_text(text: str) -> str:
    r"""Write a name so that Markdown shows it as it is: no column, markup, link, image or entity comes of it.

    >>> print(markdown_text("a|b *c* gemm_n8 [x](y) <img>"))
    a\|b \*c\* gemm_n8 \[x\](y) &lt;img>
    """
    plain = _MARKUP.sub(r"\\\g<0>", printable(text))
    return re.sub(r"&(?=#?\w+;)", "&amp;", plain).replace("<", "&lt;")


def _arrow_value(value: object) -> object:
    return list(value.items()) if isinstance(value, dict) else value


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingPackageError(
            "pyarrow", extra="parquet", needed_for="writing Parquet files"
        ) from None
