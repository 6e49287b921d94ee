"""Sources of a new solution: they build, run and fit the signature, and write zeros until filled in."""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashinfer_bench.data import Definition, TensorSpec

_TORCH_NAMES = {"float4_e2m1": "float4_e2m1fn_x2"}
_C_TYPES = {
    "float32": "float",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "bool": "bool",
}
_TILELANG_BITS = {
    "bfloat16": "int16",
    "bool": "int8",
    "float8_e4m3fn": "int8",
    "float8_e5m2": "int8",
}
_CPP_AND_OUR_WORDS = (
    "alignas auto bool break case catch char class const continue default delete do double else enum "
    "explicit export extern false float for friend goto if inline int long mutable namespace new "
    "operator private protected public register return short signed sizeof static struct switch "
    "template this throw true try typedef typename union unsigned using virtual void volatile while "
    "torch triton tl tilelang T run fill"
)
_RESERVED = frozenset(_CPP_AND_OUR_WORDS.split())


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The entry file of a new solution, and how it is built."""

    path: str
    text: str
    target_hardware: tuple[str, ...]
    dependencies: tuple[str, ...] = ()
    is_into: bool = True
    binding: str | None = None


def skeleton_for(definition: Definition, language: str) -> Skeleton:
    """Derive the entry file from the definition's signature."""
    match language:
        case "python":
            return _python(definition)
        case "triton":
            return Skeleton("main.py", _triton(definition), ("cuda", "cpu"), ("torch", "triton"))
        case "tilelang":
            return Skeleton(
                "main.py", _tilelang(definition), ("cuda", "cpu"), ("torch", "tilelang")
            )
        case "cpp":
            return Skeleton("kernel.cpp", _cpp(definition), ("cpu",), binding="tvm-ffi")
        case _:
            return Skeleton("kernel.cu", _cuda(definition), ("cuda",), binding="tvm-ffi")


def _python(definition: Definition) -> Skeleton:
    """Return new outputs where their sizes follow from the inputs, else fill those passed in."""
    hardware, needs = ("cpu", "cuda"), ("torch",)
    lengths = _length_lines(definition)
    if lengths is None:
        return Skeleton("main.py", _python_into(definition), hardware, needs)
    names = _names(definition)
    device = next(
        (names[n] for n, spec in definition.inputs.items() if spec.shape is not None), None
    )
    on = f", device={device}.device" if device else ""
    outputs = [names[name] for name in definition.outputs]
    made = [
        f"    {names[name]} = torch.zeros({_tuple(spec)}, dtype=torch.{_torch(spec)}{on})"
        for name, spec in definition.outputs.items()
    ]
    body = [*lengths, f"    # {_FILL_IN}", *made, f"    return {', '.join(outputs)}"]
    arguments = ", ".join(names[name] for name in definition.inputs)
    text = f"{_python_head(definition)}import torch\n\n\ndef run({arguments}):\n"
    text += f"{_python_doc(definition)}" + "\n".join(body) + "\n"
    return Skeleton("main.py", text, hardware, needs, is_into=False)


def _python_into(definition: Definition) -> str:
    names = _names(definition)
    body = [f"    # {_FILL_IN}"]
    body += [f"    {names[name]}.zero_()" for name in definition.outputs]
    text = f"{_python_head(definition)}import torch\n\n\ndef run({', '.join(names.values())}):\n"
    return text + _python_doc(definition) + "\n".join(body) + "\n"


def _triton(definition: Definition) -> str:
    names = _names(definition)
    launches = "".join(
        f"    fill[(triton.cdiv({names[n]}.numel(), BLOCK),)]({names[n]}, {names[n]}.numel(), BLOCK=BLOCK)\n"
        for n in definition.outputs
    )
    return f'''{_python_head(definition)}import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def fill(out_ptr, count, BLOCK: tl.constexpr):
    """Write zeros: replace it by the kernel."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.zeros((BLOCK,), out_ptr.dtype.element_ty), mask=at < count)


def run({", ".join(names.values())}):
{_python_doc(definition)}    # {_FILL_IN}
{launches}'''


def _tilelang(definition: Definition) -> str:
    names = _names(definition)
    launches = "".join(_tilelang_launch(names[n], spec) for n, spec in definition.outputs.items())
    torch = "import torch\n" if "torch." in launches else ""
    return f'''{_python_head(definition)}import functools

import tilelang
import tilelang.language as T
{torch}
BLOCK = 256


@functools.cache
def fill(dtype):
    """Compile a kernel that writes zeros: replace it by the real one."""
    count = T.dynamic("count")

    @T.prim_func
    def kernel(out: T.Tensor((count,), dtype)):
        with T.Kernel(T.ceildiv(count, BLOCK), threads=BLOCK) as block:
            for i in T.Parallel(BLOCK):
                if block * BLOCK + i < count:
                    out[block * BLOCK + i] = T.cast(0, dtype)

    return tilelang.compile(kernel)


def run({", ".join(names.values())}):
{_python_doc(definition)}    # {_FILL_IN}
{launches}'''


def _tilelang_launch(name: str, spec: TensorSpec) -> str:
    bits = _TILELANG_BITS.get(str(spec.dtype))
    view = f"{name}.view(-1)" + (f".view(torch.{bits})" if bits else "")
    return f'    fill("{bits or spec.dtype}")({view})\n'


def _cpp(definition: Definition) -> str:
    names = _names(definition)
    fills = "".join(
        f"  std::memset(data_of<{_c_type(spec)}>({names[n]}), 0, "
        f"{names[n]}.numel() * sizeof({_c_type(spec)}));\n"
        for n, spec in definition.outputs.items()
    )
    return f"""{_c_head(definition)}
#include <cstdint>
#include <cstring>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

namespace {{

using tvm::ffi::TensorView;

{_DATA_OF}
{_c_doc(definition)}void run({_c_parameters(definition)}) {{
  // {_FILL_IN}
{fills}}}

}}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


def _cuda(definition: Definition) -> str:
    names = _names(definition)
    first = next(
        (names[n] for n, each in definition.inputs.items() if each.shape is not None), None
    )
    device = first or next(names[name] for name in definition.outputs)
    launches = "".join(
        f"  launch_fill(data_of<{_c_type(spec)}>({names[n]}), {names[n]}.numel(), stream);\n"
        for n, spec in definition.outputs.items()
    )
    return f"""{_c_head(definition)}
#include <cstdint>

#include <cuda_runtime.h>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

namespace {{

using tvm::ffi::TensorView;

constexpr int kThreads = 256;

{_DATA_OF}
// Writes zeros: replace it by the kernel.
template <typename Element>
__global__ void fill(Element* out, int64_t count) {{
  int64_t at = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (at < count) out[at] = Element{{}};
}}

template <typename Element>
void launch_fill(Element* out, int64_t count, cudaStream_t stream) {{
  if (count == 0) return;
  fill<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(out, count);
  cudaError_t error = cudaGetLastError();
  TVM_FFI_CHECK(error == cudaSuccess, RuntimeError) << cudaGetErrorString(error);
}}

{_c_doc(definition)}void run({_c_parameters(definition)}) {{
  DLDevice device = {device}.device();
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  // {_FILL_IN}
{launches}}}

}}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


_FILL_IN = (
    "Fill in: zeros are written so far, so that building, calling and comparing can be tried."
)
_DATA_OF = """// The address of a tensor's first element.
template <typename Element>
Element* data_of(TensorView tensor) {
  TVM_FFI_CHECK(tensor.IsContiguous(), ValueError) << "tensors must be contiguous";
  return reinterpret_cast<Element*>(static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset());
}
"""


def _names(definition: Definition) -> dict[str, str]:
    """Give each input and output a name that every language takes."""
    names: dict[str, str] = {}
    for index, name in enumerate((*definition.inputs, *definition.outputs)):
        usable = name if name.isidentifier() and name.isascii() else f"argument_{index}"
        is_taken = usable in _RESERVED or keyword.iskeyword(usable) or usable in names.values()
        names[name] = f"{usable}_" if is_taken else usable
    return names


def _described(definition: Definition) -> list[str]:
    """Write one line per input and output: name, dtype, shape, words."""
    names = _names(definition)
    lines = []
    for name, spec in (*definition.inputs.items(), *definition.outputs.items()):
        shape = "scalar" if spec.shape is None else f"[{', '.join(_sized(definition, spec))}]"
        words = f": {_one_line(spec.description)}" if spec.description else ""
        lines.append(f"{names[name]}: {spec.dtype} {shape}{words}")
    return lines


def _sized(definition: Definition, spec: TensorSpec) -> list[str]:
    constants = definition.const_axes
    return [f"{axis}={constants[axis]}" if axis in constants else axis for axis in spec.shape or ()]


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split()).replace('"""', "'''").replace("\\", "/")


def _python_head(definition: Definition) -> str:
    words = _one_line(definition.description)
    return f'"""{definition.name}{f": {words}" if words else ""}"""\n\n'


def _python_doc(definition: Definition) -> str:
    lines = "".join(f"    {line}\n" for line in _described(definition))
    return f'    """Compute the outputs.\n\n{lines}    """\n'


def _c_head(definition: Definition) -> str:
    words = _one_line(definition.description)
    return f"// {definition.name}{f': {words}' if words else ''}\n"


def _c_doc(definition: Definition) -> str:
    return "".join(f"// {line}\n" for line in _described(definition))


def _c_parameters(definition: Definition) -> str:
    names = _names(definition)
    specs = {**definition.inputs, **definition.outputs}
    return ", ".join(f"{_c_parameter_type(specs[name])} {names[name]}" for name in specs)


def _c_parameter_type(spec: TensorSpec) -> str:
    if spec.shape is not None:
        return "TensorView"
    return "bool" if spec.dtype == "bool" else "double" if spec.dtype.is_float else "int64_t"


def _c_type(spec: TensorSpec) -> str:
    """Give the C++ type of an element; formats that C++ lacks are their bits."""
    return _C_TYPES.get(str(spec.dtype), "uint8_t")


def _torch(spec: TensorSpec) -> str:
    return _TORCH_NAMES.get(str(spec.dtype), str(spec.dtype))


def _tuple(spec: TensorSpec) -> str:
    shape = spec.shape or []
    return f"({', '.join(shape)}{',' if len(shape) == 1 else ''})"


def _length_lines(definition: Definition) -> list[str] | None:
    """Compute the lengths of the outputs' axes; None where they do not follow from the inputs."""
    names = _names(definition)
    expressions: Mapping[str, str] = {n: each.text for n, each in definition.derived_axes}
    needed = _needed_axes(definition)
    taken = {*names.values(), *_RESERVED}
    lines = []
    for axis in needed:
        is_bound = axis not in definition.var_axes or axis in definition.var_axes_bindings
        if not axis.isidentifier() or keyword.iskeyword(axis) or axis in taken or not is_bound:
            return None
        if axis in definition.const_axes:
            lines.append(f"    {axis} = {definition.const_axes[axis]}")
        elif axis in expressions:
            lines.append(f"    {axis} = int({expressions[axis]})")
        else:
            tensor, dimension = definition.var_axes_bindings[axis]
            lines.append(f"    {axis} = {names[tensor]}.shape[{dimension}]")
    return lines


def _needed_axes(definition: Definition) -> list[str]:
    """List the axes of the outputs, and what derived ones derive from, in an order that works."""
    derived = dict(definition.derived_axes)
    used = {axis for spec in definition.outputs.values() for axis in spec.shape or ()}
    for axis in reversed(derived):
        used |= derived[axis].names if axis in used else set()
    plain = [axis for axis in definition.axes if axis in used and axis not in derived]
    return plain + [axis for axis in derived if axis in used]
