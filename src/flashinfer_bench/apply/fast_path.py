"""The code that every applied call runs, made for one definition: keyed, looked up, answered.

A loop over inputs costs as much as a small kernel, so the code is written out for the number and kinds of
arguments, as `dataclasses` does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from flashinfer_bench.tensors.dtypes import torch_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from flashinfer_bench.apply.kernels import Kernel
    from flashinfer_bench.data import TensorSpec
    from flashinfer_bench.intercept import Link, Proceed
    from flashinfer_bench.intercept.chain import Inside

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
"""Other classes may not hold what their shape and dtype say."""
SCALARS = frozenset({int, float, bool})

_LINK = """
def link(args, kwargs, proceed):
    try:
        {names} = args
        if not kwargs{conditions}:
            kernel, count, other = answers[{key}]
        else:
            kernel, other = None, consider
    except (AttributeError, KeyError, ValueError):
        kernel, other = None, consider
    if kernel is None:
        return other(args, kwargs, proceed)
    if patched:
        return marked(kernel, count, other, args, proceed)
    try:
        answer = kernel({names})
    except Exception as error:
        other(error)
    else:
        count()
        return answer if answer.__class__ is not tuple else unpacked(answer)
    return proceed(*args)

def key(args):
    try:
        {names} = args
        return {key} if True{conditions}{plain} else None
    except AttributeError:
        return None
"""


class Answer(NamedTuple):
    """How calls with one key are answered."""

    kernel: Kernel | None
    """Takes the arguments and answers; None: all is left to `other`."""
    counted: Callable[[], object]
    """Counts an answer of the kernel."""
    other: Callable[..., Any]
    """Takes the exception of a kernel that raised, after which the call proceeds; without a kernel, a `Link`."""


def marking(inside: Inside) -> Callable[..., Any]:
    """Make what calls a kernel while functions are patched: what the kernel calls in turn is not intercepted."""

    def marked(
        kernel: Kernel,
        count: Callable[[], object],
        failed: Callable[[Exception], None],
        args: tuple[Any, ...],
        proceed: Proceed,
    ) -> Any:
        before = inside.solution
        inside.solution = True
        try:
            answer = kernel(*args)
        except Exception as error:  # noqa: BLE001 - the program has its fallback
            failed(error)
        else:
            count()
            return unpacked(answer) if isinstance(answer, tuple) else answer
        finally:
            inside.solution = before
        return proceed(*args)

    return marked


def unpacked(answer: tuple[Any, ...]) -> Any:
    """Give the element of a tuple of one, None for an empty one: what a solution returns as a tuple."""
    match answer:
        case ():
            return None
        case (only,):
            return only
        case _:
            return answer


def written_out(
    specs: Iterable[TensorSpec],
    answers: Mapping[Hashable, Answer],
    consider: Link,
    marked: Callable[..., Any],
    *,
    patched: object,
    has_accelerator: bool,
) -> tuple[Link, Callable[[tuple[Any, ...]], Hashable | None]]:
    """Make the link of calls with these arguments, and the function that gives the key of one.

    The key is None for a call that no answer may be remembered for: a tensor of another dtype, class or layout, or
    one that needs a gradient. Without an accelerator it holds no device: tensors that are not on the CPU are refused.
    `patched` is falsy while nothing is patched; then kernels need not be `marked`.
    """
    specs = list(specs)
    numbers = [at for at, spec in enumerate(specs) if spec.shape is not None]
    scope: dict[str, Any] = {
        "answers": answers,
        "consider": consider,
        "marked": marked,
        "patched": patched,
        "unpacked": unpacked,
        "plain": PLAIN,
        "scalars": SCALARS,
        "is_grad_enabled": torch.is_grad_enabled,
    }
    conditions = ""
    for at, spec in enumerate(specs):
        if spec.shape is None:
            conditions += f" and a{at}.__class__ in scalars"
            continue
        scope[f"dtype{at}"] = torch_dtype(spec.dtype)
        conditions += f" and a{at}.dtype is dtype{at} and a{at}.is_contiguous()"
        conditions += "" if has_accelerator else f" and a{at}.is_cpu"
    if numbers:
        wants_gradient = " or ".join(f"a{at}.requires_grad" for at in numbers)
        conditions += f" and not (is_grad_enabled() and ({wants_gradient}))"
    plain = "".join(f" and a{at}.__class__ in plain" for at in numbers)
    places = "a{at}.device, " if has_accelerator else ""
    parts = "".join(f"a{at}.shape, a{at}.__class__, " + places.format(at=at) for at in numbers)
    names = "".join(f"a{at}, " for at in range(len(specs))) or "()"
    source = _LINK.format(names=names, conditions=conditions, plain=plain, key=f"({parts})")
    exec(compile(source, "<apply>", "exec"), scope)  # noqa: S102 - our own template, filled with numbers only
    link: Link = scope["link"]
    key: Callable[[tuple[Any, ...]], Hashable | None] = scope["key"]
    return link, key
