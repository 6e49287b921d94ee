from __future__ import annotations

from typing import Any

import pytest
import torch

from flashinfer_bench.decompose import names
from flashinfer_bench.decompose.ir import Named, Op, Ref, Scope, Span
from flashinfer_bench.decompose.names import call, canonical, is_copy_form, resolve

SCOPE = (Scope("module", "", "Model", 0),)
G = torch.Generator().manual_seed(5)
A = torch.rand(4, 4, generator=G) + 0.5
I = torch.randint(1, 5, (4, 4), generator=G)  # noqa: E741
B3 = torch.rand(2, 4, 4, generator=G)
B4 = torch.rand(2, 4, 4, 4, generator=G)
B5 = torch.rand(2, 4, 4, 4, 4, generator=G)
W1, W2, W3 = B3[:, :, :3], B4[..., :3, :3], B5[..., :3, :3, :3]
SAMPLES: dict[str, tuple[Any, ...]] = {
    "torch.mm": (A, A), "torch.matmul": (A, A), "torch.softmax": (A, -1), "torch.log_softmax": (A, -1),
    "torch.logsumexp": (A, -1), "torch.clamp": (A, 0.6, 0.9), "torch.cat": ([A, A], 1),
    "torch.transpose": (A, 0, 1), "torch.movedim": (B3, 0, 2), "torch.floor_divide": (I, 2),
    "torch.remainder": (I, 3), "torch.pow": (A, 2), "torch.bitwise_and": (I, I), "torch.bitwise_or": (I, I),
    "torch.bitwise_xor": (I, I), "torch.bitwise_not": (I,), "torch.bitwise_left_shift": (I, 1),
    "torch.bitwise_right_shift": (I, 1), "torch.Tensor.__rtruediv__": (A, 2.0), "torch.Tensor.__reversed__": (A,),
    "torch.nn.functional.conv1d": (B3, W1), "torch.nn.functional.conv2d": (B4, W2),
    "torch.nn.functional.conv3d": (B5, W3), "torch.nn.functional.conv_transpose1d": (B3, W1.transpose(0, 1)),
    "torch.nn.functional.conv_transpose2d": (B4, W2.transpose(0, 1)),
    "torch.nn.functional.conv_transpose3d": (B5, W3.transpose(0, 1)),
    "torch.nn.functional.rms_norm": (A, (4,)), "torch.nn.functional.avg_pool1d": (B3, 2),
    "torch.nn.functional.adaptive_avg_pool1d": (B3, 2), "torch.nn.functional.prelu": (A, A[0, :1]),
    "torch.nn.functional.pixel_shuffle": (B4, 2), "torch.nn.functional.bilinear": (A, A, torch.stack([A, A])),
    "torch.nn.functional.channel_shuffle": (B4, 2), "torch.nn.functional.conv_tbc": (B3, W1.permute(2, 1, 0), A[0, :2]),
    "torch.nn.functional.cosine_similarity": (A, A.t()), "torch.nn.functional.pairwise_distance": (A, A.t()),
    "torch.nn.functional.pdist": (A,), "torch.nn.functional.pixel_unshuffle": (B4, 2),
    "torch.Tensor.view": (A, (2, 8)), "torch.reshape": (A, (2, 8)), "torch.permute": (A, (1, 0)),
    "torch.Tensor.expand": (A, (2, 4, 4)), "torch.Tensor.repeat": (A, (2, 1)), "torch.flip": (A, (0,)),
    "torch.tile": (A, (2, 2)), "torch.broadcast_to": (A, (2, 4, 4)), "torch.Tensor.sum_to_size": (A, (1, 4)),
    "torch.zeros": ((2, 3),), "torch.ones": ((2, 3),), "torch.empty": ((2, 3),), "torch.rand": ((2, 3),),
    "torch.randn": ((2, 3),), "torch.Tensor.new_zeros": (A, (2,)), "torch.Tensor.new_ones": (A, (2,)),
    "torch.Tensor.new_empty": (A, (2,)),
}  # fmt: skip
ONE = {
    "torch.neg", "torch.abs", "torch.positive", "torch.relu", "torch.sigmoid", "torch.tanh", "torch.erf",
    "torch.nn.functional.hardshrink",
}  # fmt: skip
TARGETS = sorted({*names._OPERATORS.values(), *names._SAME.values(), *names._SHAPES})


def _sample(name: str) -> tuple[Any, ...]:
    return SAMPLES.get(name, (A,) if name in ONE else (A, A.t()))


def _op(fn: str, args: tuple[Any, ...]) -> tuple[Op, dict[str, torch.Tensor]]:
    """An operation whose tensors are references, and what they refer to."""
    env: dict[str, torch.Tensor] = {}

    def referred(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            env[f"v{len(env)}"] = value
            return Ref(f"v{len(env) - 1}")
        return [referred(each) for each in value] if isinstance(value, list) else value

    return Op(0, fn, tuple(referred(each) for each in args), {}, ("out",), SCOPE), env


@pytest.mark.parametrize("name", TARGETS)
def test_every_name_of_the_table_is_evaluated_as_an_operation(name: str) -> None:
    op, env = _op(name, _sample(name))

    (made,) = call(op, env)

    expected = resolve(name)(*_sample(name))
    assert made.shape == expected.shape
    drawn = name in ("torch.rand", "torch.randn", "torch.empty", "torch.Tensor.new_empty")
    assert drawn or torch.equal(made, expected)


@pytest.mark.parametrize(("left", "right"), names._SAME.items())
def test_two_names_of_one_function_compute_the_same(left: str, right: str) -> None:
    given = _sample(right)

    assert torch.equal(resolve(left)(*given), resolve(right)(*given))


COMMUTED = {"__radd__", "__rmul__", "__rand__", "__ror__", "__rxor__"}


@pytest.mark.parametrize(("method", "name"), names._OPERATORS.items())
def test_an_operator_computes_what_its_name_says(method: str, name: str) -> None:
    given = _sample(name)

    assert torch.equal(getattr(torch.Tensor, method)(*given), resolve(name)(*given))
    assert method not in COMMUTED or torch.equal(resolve(name)(*given), resolve(name)(*given[::-1]))


def test_methods_in_python_that_are_named_as_functions_are_few_and_known() -> None:
    methods = {name: getattr(torch.Tensor, name) for name in dir(torch.Tensor) if name[0] != "_"}
    shared = {
        name
        for name, method in methods.items()
        if callable(method) and canonical(method) == f"torch.{name}"
    }

    in_python = {name for name in shared if hasattr(methods[name], "__code__")}

    assert len(shared) > 200  # those in C++ come from one declaration with their functions
    assert in_python == {"split", "unflatten", "eig", "lstsq", "solve", "symeig"}


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (torch.Tensor.add, "torch.add"),
        (torch.Tensor.view, "torch.Tensor.view"),
        (torch.Tensor.float, "torch.Tensor.float"),
        (torch.conv2d, "torch.nn.functional.conv2d"),
        (torch.functional.einsum, "torch.einsum"),
        (torch._C._nn.gelu, "torch.nn.functional.gelu"),
        (torch._VF.lstm, "torch.lstm"),
        (torch.ops.aten.add.Tensor, "torch.ops.aten.add.Tensor"),
        (torch.fft.rfft, "torch.fft.rfft"),
        (torch.linalg.norm, "torch.linalg.norm"),
        (lambda x: x, None),
    ],
)
def test_a_function_has_the_name_it_can_be_called_by(function: Any, name: str | None) -> None:
    found = canonical(function)

    assert found == name
    assert found is None or callable(resolve(found))


@pytest.mark.parametrize("name", ["torch.no_such", "math.sqrt", "torch.pi", "os.system"])
def test_a_name_that_is_no_function_of_torch_is_not_resolved(name: str) -> None:
    with pytest.raises(AttributeError):
        resolve(name)


def test_a_copy_form_leaves_its_input_alone() -> None:
    index = (Named("ellipsis", "..."), Span(1, None, None))
    op = Op(0, "torch.Tensor.__setitem__", (Ref("x"), index, 0.0), {}, ("y",), SCOPE)
    given = A.clone()

    (made,) = call(op, {"x": given})

    assert torch.equal(given, A)
    assert made[:, 1:].sum() == 0
    assert torch.equal(made[:, 0], A[:, 0])


def test_autocast_holds_where_it_was_and_nowhere_else() -> None:
    inside = Op(
        0, "torch.mm", (Ref("x"), Ref("x")), {}, ("y",), SCOPE, autocast=("cpu", "bfloat16")
    )
    outside = Op(0, "torch.mm", (Ref("x"), Ref("x")), {}, ("y",), SCOPE)

    with torch.autocast("cpu", dtype=torch.float16):
        found = [call(op, {"x": A})[0].dtype for op in (inside, outside)]

    assert found == [torch.bfloat16, torch.float32]


def test_factories_are_made_where_the_first_input_is() -> None:
    op = Op(0, "torch.Tensor.new_zeros", (Ref("x"), (2,)), {}, ("y",), SCOPE)

    (made,) = call(op, {"x": A.to("meta")})

    assert made.is_meta


@pytest.mark.parametrize(
    ("fn", "is_copy"),
    [
        ("torch.Tensor.__setitem__", True),
        ("torch.Tensor.add_", True),
        ("torch.Tensor.__getitem__", False),
        ("torch.add", False),
        ("torch.Tensor.__rpow__", False),
    ],
)
def test_copy_forms_are_known_by_their_names(fn: str, is_copy: bool) -> None:
    assert is_copy_form(fn) is is_copy
