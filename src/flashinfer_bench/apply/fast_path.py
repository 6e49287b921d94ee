"""The code that every applied call runs, made for one definition: keyed, looked up, passed on.

A loop over inputs costs as much as a small kernel, so the code is written out for the number and kinds of
arguments, as `dataclasses` does it. For two tensors and a number it reads::

    def link(args, kwargs, proceed):
        try:
            a0, a1, a2 = args
            if (
                not kwargs
                and a0.dtype is dtype0 and a0.is_cpu and a0.is_contiguous() and a0.__class__ in plain
                and a1.dtype is dtype1 and a1.is_cpu and a1.is_contiguous() and a1.__class__ in plain
                and a2.__class__ in scalars
                and not (is_grad_enabled() and (a0.requires_grad or a1.requires_grad))
            ):
                found = answers.get((a0.shape, a1.shape,))
            else:
                found = None
        except (AttributeError, ValueError):
            found = None
        if found is not None:
            return found(args, kwargs, proceed)
        return consider(args, kwargs, proceed)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from flashinfer_bench.tensors.dtypes import torch_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from flashinfer_bench.data import TensorSpec
    from flashinfer_bench.intercept import Link

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
"""Other classes may not hold what their shape and dtype say."""
SCALARS = frozenset({int, float, bool})

_LINK = """
def link(args, kwargs, proceed):
    try:
        {names} = args
        if not kwargs{conditions}:
            found = answers.get({key})
        else:
            found = None
    except (AttributeError, ValueError):
        found = None
    if found is not None:
        return found(args, kwargs, proceed)
    return consider(args, kwargs, proceed)

def key(args):
    try:
        {names} = args
        return {key} if True{conditions} else None
    except AttributeError:
        return None
"""


def written_out(
    specs: Iterable[TensorSpec],
    answers: Mapping[Hashable, Link],
    consider: Link,
    *,
    has_accelerator: bool,
) -> tuple[Link, Callable[[tuple[Any, ...]], Hashable | None]]:
    """Make the link of calls with these arguments, and the function that gives the key of one.

    The key is None for a call that no answer may be remembered for: a tensor of another dtype, class or layout, or
    one that needs a gradient. Without an accelerator it holds no device: all tensors that are not on the CPU are
    refused.
    """
    specs = list(specs)
    numbers = [at for at, spec in enumerate(specs) if spec.shape is not None]
    scope: dict[str, Any] = {
        "answers": answers,
        "consider": consider,
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
        conditions += f" and a{at}.dtype is dtype{at}"
        conditions += "" if has_accelerator else f" and a{at}.is_cpu"
        conditions += f" and a{at}.is_contiguous() and a{at}.__class__ in plain"
    if numbers:
        wants_gradient = " or ".join(f"a{at}.requires_grad" for at in numbers)
        conditions += f" and not (is_grad_enabled() and ({wants_gradient}))"
    parts = "".join(
        f"a{at}.shape, a{at}.device, " if has_accelerator else f"a{at}.shape, " for at in numbers
    )
    names = "".join(f"a{at}, " for at in range(len(specs))) or "()"
    source = _LINK.format(names=names, conditions=conditions, key=f"({parts})")
    exec(compile(source, "<apply>", "exec"), scope)  # noqa: S102 - our own template, filled with numbers only
    link: Link = scope["link"]
    key: Callable[[tuple[Any, ...]], Hashable | None] = scope["key"]
    return link, key
