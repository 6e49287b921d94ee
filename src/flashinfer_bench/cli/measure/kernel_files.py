"""A kernel file becomes a solution: what it does not say is read off its source."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashinfer_bench.data.scaffolding.reference_source import EXAMPLE_FUNCTIONS
from flashinfer_bench.errors import DatasetError, UsageError
from flashinfer_bench.tensors.other_hardware import refusal_of_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flashinfer_bench.data import Definition, Solution

AUTHOR = "check"
LANGUAGES_BY_SUFFIX = {
    ".py": "python",
    ".cpp": "cpp",
    ".cc": "cpp",
    ".cxx": "cpp",
    ".cu": "cuda",
}
_COMPILED = frozenset({"cpp", "cuda"})
_DSLS = frozenset({"triton", "tilelang"})
_DSL_IMPORT = re.compile(r"^\s*(?:import|from)\s+(triton|tilelang)\b", re.MULTILINE)
_TVM_FFI_EXPORT = re.compile(r"\bTVM_FFI_DLL_EXPORT_TYPED_FUNC\s*\(\s*(\w+)")
_TORCH_BINDING = re.compile(r"\bPYBIND11_MODULE\s*\(")
_PYBIND_NAME = re.compile(r"\.def\s*\(\s*\"(\w+)\"")
QUOTED_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_DEFAULT_ENTRY = "run"
_DEVICE_FUNCTION = re.compile(r"(?:triton\.)?jit\b|(?:\w+\.)*prim_func\b")
"""A decorator of what a kernel's own function launches; nobody calls that by itself."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What the user says about a file; None leaves it to the source."""

    language: str | None = None
    entry_point: str | None = None
    device_kind: str = "cpu"


def hints_of(language: str | None, entry_point: str | None, device: str) -> Hints:
    """Put together what options say; `device` is one that a run would take."""
    from flashinfer_bench.bench.parent.pool import device_names  # noqa: PLC0415  # pydantic

    return Hints(language, entry_point, device_names(device)[0].partition(":")[0])


@dataclass(frozen=True, slots=True)
class _EntryFunction:
    """A function to call, and whether it writes into outputs that are passed in."""

    name: str
    is_into: bool
    binding: str | None = None


def solution_from(path: Path, definition: Definition, hints: Hints) -> Solution:
    """Make a solution of one file. Raises `UsageError` for what cannot be told from the source."""
    from flashinfer_bench.data import BuildSpec, Solution, SourceFile  # noqa: PLC0415  # pydantic

    path = path.resolve()
    text = _read(path)
    language = hints.language or _language_of(path, text)
    wanted = None if hints.entry_point is None else hints.entry_point.rpartition("::")[2]
    entry = _entry(text, language, wanted, definition)
    sources = {path.name: text}
    if language in _COMPILED:
        _add_headers(sources, path.parent, text)
    return Solution(
        name=path.stem,
        definition=definition.name,
        author=AUTHOR,
        spec=BuildSpec.model_validate(
            {
                "language": language,
                "target_hardware": ["cuda" if language == "cuda" else hints.device_kind],
                "entry_point": f"{path.name}::{entry.name}",
                "destination_passing_style": entry.is_into,
                "binding": entry.binding,
            }
        ),
        sources=[SourceFile(path=name, content=content) for name, content in sources.items()],
    )


def defines_model(path: Path) -> bool:
    """Tell whether a file is a problem in the form of KernelBench: it defines a class `Model`."""
    try:
        module = ast.parse(_read(path))
    except SyntaxError:
        return False
    return any(isinstance(node, ast.ClassDef) and node.name == "Model" for node in module.body)


def with_paths(text: str, kernel: Path, solution: Solution) -> str:
    """Name the user's files, for an editor to find, where messages name the solution's sources.

    >>> from pathlib import Path
    >>> from types import SimpleNamespace as Some
    >>> solution = Some(sources=[Some(path="k.cpp")])
    >>> with_paths("./k.cpp:3:5: error: what?", Path("code/k.cpp"), solution)
    'code/k.cpp:3:5: error: what?'
    """
    folder = kernel if kernel.suffix not in LANGUAGES_BY_SUFFIX else kernel.parent
    for source in solution.sources:
        name, path = re.escape(source.path), str(folder / source.path)
        places = rf'(?:(?<=File ")|(?<![^\s(]))(?:\./)?{name}(?="|[:(]\d)'
        text = re.sub(places, path.replace("\\", r"\\"), text)
    return text


def _add_headers(sources: dict[str, str], folder: Path, text: str) -> None:
    """Add headers of the same folder, and what they include in turn."""
    for name in QUOTED_INCLUDE.findall(text):
        header = folder / name
        if name not in sources and header.is_file() and header.resolve().is_relative_to(folder):
            sources[name] = _read(header)
            _add_headers(sources, folder, sources[name])


def _read(path: Path) -> str:
    from flashinfer_bench.data.opening import require_regular  # noqa: PLC0415  # pydantic

    try:
        require_regular(path)
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text") from error
    except DatasetError as error:
        raise UsageError(f"cannot read {error}") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _language_of(path: Path, text: str) -> str:
    language = LANGUAGES_BY_SUFFIX.get(path.suffix)
    if refusal := refusal_of_file(str(path)):
        raise UsageError(f"cannot compile {path}: {refusal}")
    if language is None:
        known = ", ".join(LANGUAGES_BY_SUFFIX)
        raise UsageError(f"cannot tell the language of {path}: its suffix is none of {known}")
    return _dsl_of(text) or language if language == "python" else language


def _dsl_of(text: str) -> str | None:
    """Name the first language that a Python file imports to write kernels in."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError):  # building it will show where
        found = _DSL_IMPORT.search(text)
        return found.group(1) if found else None
    imports = [node for node in ast.walk(module) if isinstance(node, ast.Import | ast.ImportFrom)]
    imports.sort(key=lambda node: node.lineno)
    names = (name.partition(".")[0] for node in imports for name in _imported(node))
    return next((name for name in names if name in _DSLS), None)


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [node.module] if node.module and not node.level else []


def _entry(text: str, language: str, wanted: str | None, definition: Definition) -> _EntryFunction:
    if language in _COMPILED:
        return _compiled_entry(text, wanted, definition)
    return _python_entry(text, wanted, definition)


def _python_entry(text: str, wanted: str | None, definition: Definition) -> _EntryFunction:
    """Pick `run`, or the public function; its arguments tell the calling style."""
    try:
        module = ast.parse(text)
    except SyntaxError:  # building it will show where
        return _EntryFunction(wanted or _DEFAULT_ENTRY, is_into=False)
    functions = {
        name: function
        for name, function in _functions(module).items()
        if not name.startswith("_") and name not in EXAMPLE_FUNCTIONS
    }
    called = [name for name, function in functions.items() if not _is_launched(function)]
    name = wanted or _chosen(called or list(functions), "public function", definition)
    found = functions.get(name)
    if found is None:  # assigned or imported: it is taken at its word
        return _EntryFunction(name, is_into=False)
    arguments = len(found.args.posonlyargs) + len(found.args.args)
    everything = len(definition.inputs) + len(definition.outputs)
    return _EntryFunction(name, is_into=arguments == everything)


def _compiled_entry(text: str, wanted: str | None, definition: Definition) -> _EntryFunction:
    binding = "torch" if _TORCH_BINDING.search(text) else "tvm-ffi"
    pattern = _PYBIND_NAME if binding == "torch" else _TVM_FFI_EXPORT
    exported = list(dict.fromkeys(pattern.findall(text)))
    if wanted is None and not exported:
        raise UsageError(
            "the file exports no function; add TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run), "
            "or name one with --entry-point"
        )
    name = wanted or _chosen(exported, "exported function", definition)
    return _EntryFunction(name, is_into=True, binding=binding)


def _chosen(names: list[str], kind: str, definition: Definition) -> str:
    """Pick `run` if it is there, or the only name, or the one that the definition goes by."""
    if _DEFAULT_ENTRY in names or not names:
        return _DEFAULT_ENTRY
    if len(names) > 1:
        if named := _named_by(definition, names):
            return named
        raise UsageError(
            f"several {kind}s, and none is called {_DEFAULT_ENTRY!r}: {', '.join(names)}; "
            "choose one with --entry-point"
        )
    return names[0]


def _named_by(definition: Definition, names: Sequence[str]) -> str | None:
    """Give the name that is the definition's, its op type's, or that of its reference's function."""
    own = [name for name in (definition.name, definition.op_type) if name in names]
    of_reference = _functions(ast.parse(definition.reference))
    shared = [name for name in names if name in of_reference]
    return own[0] if own else shared[0] if len(shared) == 1 else None


def _functions(module: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}


def _is_launched(function: ast.FunctionDef) -> bool:
    return any(_DEVICE_FUNCTION.match(ast.unparse(each)) for each in function.decorator_list)
