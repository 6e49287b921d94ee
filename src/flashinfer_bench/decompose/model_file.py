"""A model to be taken apart: a file in KernelBench's format, or a module with example inputs."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import inspect
import itertools
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

from flashinfer_bench.decompose.held import copied_to
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from types import ModuleType

_LOADS = itertools.count()


class ModelFileError(UsageError):
    """A model's file cannot be used as it is."""


class ModelSource(Protocol):
    """Where a model and its inputs come from."""

    @property
    def name(self) -> str:
        """What the model is called."""
        ...

    def build(self, device: str, seed: int) -> nn.Module:
        """Make the model with weights drawn from a seed; on `meta` it takes no memory."""
        ...

    def inputs(self, device: str, seed: int) -> list[Any]:
        """Make what forward is given, positionally."""
        ...


@dataclass(frozen=True)
class ModelFile:
    """A file that defines `Model`, `get_inputs` and `get_init_inputs`."""

    path: Path
    source: str
    module: ModuleType
    entry: str = "Model"

    @property
    def name(self) -> str:
        """The file's name without its suffix."""
        return self.path.stem

    def build(self, device: str, seed: int) -> nn.Module:
        """Make the model with weights drawn from a seed; on `meta` it takes no memory."""
        if device != "meta":
            torch.manual_seed(seed)
            with torch.device(device), self._blaming(f"the constructor of {self.entry}"):
                return self._construct()
        with contextlib.suppress(Exception), torch.device("meta"):  # some look at their weights
            return _all_on_meta(self._construct())
        return copied_to(self.build("cpu", seed), "meta")

    def inputs(self, device: str, seed: int) -> list[Any]:
        """Make what forward is given, positionally."""
        if device == "meta":
            with contextlib.suppress(Exception), torch.device("meta"):  # some read numbers of them
                return list(moved(self._given(), "meta"))
        torch.manual_seed(seed)
        with self._blaming("get_inputs"):
            return list(moved(self._given(), device))

    def _construct(self) -> nn.Module:
        given: Any = getattr(self.module, "get_init_inputs", list)()
        model = getattr(self.module, self.entry)
        with _unscripted():
            made = model(**given) if isinstance(given, Mapping) else model(*_listed(given))
        if not isinstance(made, nn.Module):
            raise ModelFileError(
                f"{self.path}: {self.entry} makes a {type(made).__name__}: derive it from torch.nn.Module"
            )
        return made.requires_grad_(False)  # matmul picks another order of sums for a trained weight

    def _given(self) -> list[Any]:
        forward = getattr(self.module, self.entry).forward
        return _positional(self.module.get_inputs(), forward, bound=False)

    @contextlib.contextmanager
    def _blaming(self, what: str) -> Iterator[None]:
        try:
            yield
        except UsageError:
            raise
        except Exception as error:  # the file's own code: anything may come
            raise raised_in(self.path, what, error) from None


@dataclass(frozen=True)
class ModelObject:
    """A module that exists already, with inputs it can be called on."""

    module: nn.Module
    example_inputs: Any
    name: str = field(default="model")

    def build(self, device: str, seed: int) -> nn.Module:  # its weights are given
        """Copy the module to a device; its weights stay what they are."""
        return copied_to(self.module, device).requires_grad_(False)  # as in a file's model

    def inputs(self, device: str, seed: int) -> list[Any]:  # they are given
        """Copy the example inputs to a device."""
        given = _positional(self.example_inputs, self.module.forward, bound=True)
        return list(moved(copy.deepcopy(given), device))  # a forward may write into them


def load_model_file(path: str | Path, *, entry: str = "Model") -> ModelFile:
    """Import a model's file under a name of its own, with the helper modules beside it in reach."""
    path = Path(path)
    source = _read(path)
    module = _imported(path, source)
    for name, what in ((entry, f"class {entry}"), ("get_inputs", "get_inputs()")):
        if not callable(getattr(module, name, None)):
            raise ModelFileError(
                f"{path} defines no {what}: a model's file has a class {entry}(torch.nn.Module), "
                "get_inputs() that returns what forward takes, and get_init_inputs() for the constructor"
            )
    return ModelFile(path=path, source=source, module=module, entry=entry)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ModelFileError(f"no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{path} cannot be read as Python source: {error}") from None


def _imported(path: Path, source: str) -> ModuleType:
    name = f"_decomposed_{next(_LOADS)}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a class up by its module
    try:
        code = compile(source, str(path.resolve()), "exec")
        with _folder_importable(path.resolve().parent), _unscripted():
            exec(code, module.__dict__)  # running the file is what was asked for
    except SyntaxError as error:
        where = (
            f"{path}:{error.lineno}"
            if error.filename == str(path.resolve())
            else str(error.filename)
        )
        raise ModelFileError(f"{where}: {error.msg}: {(error.text or '').strip()}") from None
    except ModuleNotFoundError as error:
        raise _missing(path, error) from None
    except Exception as error:  # the file's own code: anything may come
        raise raised_in(path, "the file", error) from None
    finally:
        if not hasattr(module, "get_inputs"):
            sys.modules.pop(name, None)
    return module


@contextlib.contextmanager
def _unscripted() -> Iterator[None]:
    """Leave functions that are decorated for TorchScript as they are written: what it runs cannot be seen."""
    script = torch.jit.script
    setattr(torch.jit, "script", _as_it_is)  # noqa: B010  # mypy takes it for a type
    try:
        yield
    finally:
        setattr(torch.jit, "script", script)  # noqa: B010


def _as_it_is(scripted: Any, *_: Any, **__: Any) -> Any:
    return scripted


@contextlib.contextmanager
def _folder_importable(folder: Path) -> Iterator[None]:
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:  # another file's helper may have the same name
            origin = getattr(sys.modules[name], "__file__", None)
            if origin and Path(origin).is_relative_to(folder) and "." not in name:
                del sys.modules[name]


def _missing(path: Path, error: ModuleNotFoundError) -> ModelFileError:
    line = line_in(path, error)
    package = (error.name or "").partition(".")[0]
    return ModelFileError(
        f"{path}{line[0]} imports {error.name}, which is not installed: pip install {package}, "
        f"or put {package}.py beside the file"
    )


def raised_in(path: Path | None, what: str, error: BaseException) -> ModelFileError:
    """Say in one sentence that a model's own code raised, with its line."""
    where, line = line_in(path, error)
    quoted = f" at `{line}`" if line else ""
    message = " ".join(str(error).split()) or "no message"
    return ModelFileError(
        f"{path or 'the model'}{where}: {what} raised {type(error).__name__}{quoted}: {message}"
    )


def line_in(path: Path | None, error: BaseException) -> tuple[str, str]:
    """Find the line of the file that an error passed through last, as `:12` and its text."""
    home = str(path.resolve()) if path else None
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == home:
            return f":{frame.lineno}", linecache.getline(frame.filename, frame.lineno or 0).strip()
    return "", ""


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _positional(given: Any, forward: Callable[..., Any], *, bound: bool) -> list[Any]:
    """Bring what `get_inputs` returned into the order in which forward takes it."""
    if not isinstance(given, Mapping):
        return _listed(given)
    arguments = () if bound else (None,)
    call = inspect.signature(forward).bind(*arguments, **given)
    call.apply_defaults()
    return list(call.args)[len(arguments) :]


def moved(value: Any, device: str) -> Any:
    """Bring every tensor of a nested value to a device, each once; on `meta` it loses its memory."""
    return _moved(value, device, {})


def _moved(value: Any, device: str, done: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        if id(value) not in done:
            done[id(value)] = value.detach().to(device)
        return done[id(value)]
    if isinstance(value, Mapping):
        return {key: _moved(each, device, done) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(each, device, done) for each in value))
    if isinstance(value, list | tuple):
        return type(value)(_moved(each, device, done) for each in value)
    return value


def _all_on_meta(module: nn.Module) -> nn.Module:
    """Copy a module again if its constructor put some tensors elsewhere."""
    elsewhere = any(
        each.device.type != "meta" for each in (*module.parameters(), *module.buffers())
    )
    return copied_to(module, "meta") if elsewhere else module
