"""One implementation of a definition: source files and how to build them."""

from __future__ import annotations

import enum
import hashlib
import json
from functools import cached_property
from pathlib import Path, PurePosixPath

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from flashinfer_bench.data import build_options
from flashinfer_bench.data.entity import Entity, NonEmptyStr, is_none

_HASH_VERSION = "v1"


class SupportedLanguages(enum.StrEnum):
    """Languages a solution may be written in."""

    PYTHON = "python"
    TRITON = "triton"
    CPP = "cpp"
    CUDA = "cuda"
    TILELANG = "tilelang"


class SupportedBindings(enum.StrEnum):
    """Ways compiled code is called from Python."""

    TVM_FFI = "tvm-ffi"
    TORCH = "torch"


COMPILED_LANGUAGES = frozenset({SupportedLanguages.CPP, SupportedLanguages.CUDA})


class SourceFile(Entity):
    """One source file."""

    path: NonEmptyStr
    """Relative path; it may not leave the solution's folder."""
    content: str
    """The file's text; may be empty, as `__init__.py` often is."""

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\0" in path:
            raise ValueError(f"{path!r} must be relative and stay inside the solution")
        return path


class CompileOptions(Entity):
    """Options of compilers beside our own, of those that are allowed (docs/problems.md); a part of the hash."""

    cflags: list[NonEmptyStr] = Field(default_factory=list)
    """Of the C++ compiler, such as `-O3` or `-ffast-math`."""
    cuda_cflags: list[NonEmptyStr] = Field(default_factory=lambda: ["-O3", "--use_fast_math"])
    """Of nvcc; what names an architecture is left out, for the device's own is compiled for."""
    ld_flags: list[NonEmptyStr] = Field(default_factory=lambda: ["-lcuda"])
    """Of the linker: libraries of CUDA, torch and the system by name."""

    @field_validator("cflags", "cuda_cflags", "ld_flags")
    @classmethod
    def _are_allowed(cls, options: list[str], info: ValidationInfo) -> list[str]:
        is_ours = info.context is not None and info.context.get(build_options.WITH_OURS, False)
        found = None if is_ours else build_options.fault(str(info.field_name), options)
        if found is not None:
            raise ValueError(found)
        return options


class BuildSpec(Entity):
    """How a solution's sources become a callable."""

    language: SupportedLanguages
    """Language of the entry point."""
    target_hardware: list[str] = Field(min_length=1)
    """Devices the author had in mind."""
    entry_point: NonEmptyStr
    """`<file>::<function>`."""
    dependencies: list[NonEmptyStr] = Field(default_factory=list)
    """Packages the sources import."""
    destination_passing_style: bool = True
    """Whether outputs are passed in, pre-allocated, after the inputs."""
    binding: SupportedBindings | None = None
    """How compiled code is called; null means `tvm-ffi` for C++ and CUDA."""
    prepare: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """Function in the entry file that packs static inputs once."""
    plan: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """Function in the entry file that runs when metadata inputs change."""
    dsl: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """Free tag for the tool that made the kernel, such as `cute` or `helion`."""
    compile_options: CompileOptions | None = Field(None, exclude_if=is_none)
    """Further options of compilers; of `cpp` and `cuda` only."""

    @field_validator("entry_point")
    @classmethod
    def _has_file_and_function(cls, entry_point: str) -> str:
        file, separator, function = entry_point.partition("::")
        if not (file and separator and function) or "::" in function:
            raise ValueError(f"{entry_point!r} must read '<file>::<function>'")
        return entry_point

    @model_validator(mode="after")
    def _has_a_compiler(self) -> BuildSpec:
        if self.compile_options is not None and self.language not in COMPILED_LANGUAGES:
            raise ValueError(
                f"compile_options: nothing compiles {self.language} sources with options; leave them out, and give "
                "those of kernels in the sources"
            )
        return self

    @property
    def effective_binding(self) -> SupportedBindings | None:
        """The binding in force: `tvm-ffi` where compiled code names none, none for Python."""
        if self.language not in COMPILED_LANGUAGES:
            return None
        return self.binding or SupportedBindings.TVM_FFI


class Solution(Entity):
    """One implementation of a definition; equal to any other with the same content."""

    model_config = ConfigDict(frozen=True)

    name: NonEmptyStr
    """Unique in the dataset."""
    definition: NonEmptyStr
    """Name of the definition it implements."""
    author: NonEmptyStr
    """Who wrote it; `baseline` marks what others are ranked against."""
    spec: BuildSpec
    """How to build it."""
    sources: list[SourceFile] = Field(min_length=1)
    """Its source files."""
    description: str | None = Field(None, exclude_if=is_none)
    """What is special about it."""
    license: NonEmptyStr | None = Field(None, exclude_if=is_none)
    """Under which licence it may be used, as an SPDX expression: `Apache-2.0`. It is no part of the hash."""

    @model_validator(mode="after")
    def _sources_fit_together(self) -> Solution:
        paths = [PurePosixPath(source.path) for source in self.sources]
        twice = sorted({str(path) for path in paths if paths.count(path) > 1})
        if twice:
            raise ValueError(f"source path {twice[0]!r} occurs twice")
        folders = {parent for path in paths for parent in path.parents}
        clash = sorted(str(path) for path in paths if path in folders)
        if clash:
            raise ValueError(f"source path {clash[0]!r} is both a file and a folder")
        if PurePosixPath(self.get_entry_path()) not in paths:
            raise ValueError(f"entry file {str(self.get_entry_path())!r} is not among the sources")
        return self

    def get_entry_path(self) -> Path:
        """Path of the entry file, relative to the solution."""
        return Path(self.spec.entry_point.partition("::")[0])

    def get_entry_symbol(self) -> str:
        """Name of the entry function."""
        return self.spec.entry_point.partition("::")[2]

    def get_entry_source(self) -> SourceFile | None:
        """Find the entry file's source."""
        entry = self.get_entry_path()
        return next((source for source in self.sources if Path(source.path) == entry), None)

    @cached_property
    def _content_hash(self) -> str:
        spec = self.spec
        content: dict[str, object] = {
            "definition": self.definition,
            "language": spec.language,
            "entry_point": spec.entry_point,
            "binding": spec.effective_binding,
            "destination_passing_style": spec.destination_passing_style,
            "dependencies": spec.dependencies,
            "prepare": spec.prepare,
            "plan": spec.plan,
            **({} if spec.compile_options is None else {"options": spec.compile_options.to_dict()}),
            "sources": sorted([source.path, source.content] for source in self.sources),
        }
        if (
            spec.compile_options is not None
        ):  # flags change a binary; without any the hash is as it was
            content["compile_options"] = spec.compile_options.model_dump()
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return f"{_HASH_VERSION}-{hashlib.sha256(canonical.encode()).hexdigest()}"

    def hash(self) -> str:
        """Identify everything that changes behaviour, whatever the solution is called."""
        return self._content_hash

    def legacy_hash(self) -> str:
        """Give the ecosystem's SHA-1, which name normalisation uses; not an identity."""
        spec = self.spec
        parts = [self.definition, spec.language, spec.entry_point, spec.binding or ""]
        parts += spec.dependencies
        for source in self.sources:
            parts += [source.path, source.content]
        return hashlib.sha1("".join(parts).encode(), usedforsecurity=False).hexdigest()

    def with_unique_name(self) -> Solution:
        """Copy under a name that ends in the first eight digits of the legacy hash."""
        return self.model_copy(update={"name": f"{self.name}_{self.legacy_hash()[:8]}"})

    def __eq__(self, other: object) -> bool:
        return self.hash() == other.hash() if isinstance(other, Solution) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.hash())
