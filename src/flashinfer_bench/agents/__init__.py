"""Tools, prompts and a small agent for programs that write kernels.

Each name is loaded when it is first asked for. `FFI_PROMPT` and `FFI_PROMPT_SIMPLE` teach a model the binding of
C++ and CUDA kernels; `CommandToolbox` runs the tools of `mcp` within a program.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashinfer_bench.agents.function_schemas import function_to_schema as function_to_schema
    from flashinfer_bench.agents.function_schemas import (
        get_all_tool_schemas as get_all_tool_schemas,
    )
    from flashinfer_bench.agents.nvidia_tools import (
        flashinfer_bench_list_ncu_options as flashinfer_bench_list_ncu_options,
    )
    from flashinfer_bench.agents.nvidia_tools import (
        flashinfer_bench_run_ncu as flashinfer_bench_run_ncu,
    )
    from flashinfer_bench.agents.nvidia_tools import (
        flashinfer_bench_run_sanitizer as flashinfer_bench_run_sanitizer,
    )
    from flashinfer_bench.agents.solution_files import (
        extract_solution_to_files as extract_solution_to_files,
    )
    from flashinfer_bench.agents.solution_files import (
        pack_solution_from_files as pack_solution_from_files,
    )
    from flashinfer_bench.agents.toolbox import CommandToolbox as CommandToolbox

    FFI_PROMPT: str
    FFI_PROMPT_SIMPLE: str

_HOMES = {
    "CommandToolbox": "toolbox",
    "extract_solution_to_files": "solution_files",
    "flashinfer_bench_list_ncu_options": "nvidia_tools",
    "flashinfer_bench_run_ncu": "nvidia_tools",
    "flashinfer_bench_run_sanitizer": "nvidia_tools",
    "function_to_schema": "function_schemas",
    "get_all_tool_schemas": "function_schemas",
    "pack_solution_from_files": "solution_files",
}
_PROMPTS = {"FFI_PROMPT": "ffi_prompt", "FFI_PROMPT_SIMPLE": "short_ffi_prompt"}

__all__ = [*sorted((*_HOMES, *_PROMPTS))]  # noqa: PLE0604  # one table says both name and home


def __getattr__(name: str) -> object:
    if name in _PROMPTS:
        text: str = getattr(importlib.import_module(f"{__name__}.guides"), _PROMPTS[name])()
        return text
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
