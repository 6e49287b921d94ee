"""The file of a model that could not be taken apart: it holds the model's source, and runs it with given weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flashinfer_bench.decompose.emit.code import definition
from flashinfer_bench.decompose.emit.inputs import get_inputs
from flashinfer_bench.decompose.emit.testing import test_part
from flashinfer_bench.decompose.identity import is_weight
from flashinfer_bench.decompose.ir import Plain
from flashinfer_bench.decompose.model_file import ModelFile
from flashinfer_bench.errors import UsageError

if TYPE_CHECKING:
    from flashinfer_bench.decompose.model_file import ModelSource
    from flashinfer_bench.decompose.pieces import Pieces

_TENSORS = '''
def tensors_in(value):
    """Give all tensors of a nested result, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, (list, tuple, type({}.values()))):
        return [tensor for each in value for tensor in tensors_in(each)]
    return []
'''


def opaque_file(source: ModelSource, pieces: Pieces) -> str:
    """Write the only file of a model that is one piece."""
    if not isinstance(source, ModelFile):
        raise UsageError(
            f"{source.name} cannot be followed while it runs, and comes from no file that could be written: "
            "put it into a file with Model and get_inputs, and decompose that"
        )
    piece = pieces.root
    sections = [
        f"ORIGINAL = {_quoted(source.source)}",
        _TENSORS.strip(),
        "\n".join(_model(source, pieces)),
        "\n".join(get_inputs(pieces, piece)),
        "\n".join(test_part(pieces, piece)),
    ]
    head = f'"""{pieces.trace.model}, which could not be taken apart."""\n\nimport torch\nfrom torch import nn'
    return "\n\n\n".join([head, *sections]) + "\n"


def _quoted(text: str) -> str:
    return '"""\\\n' + text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') + '"""'


def _model(source: ModelFile, pieces: Pieces) -> list[str]:
    trace, piece = pieces.trace, pieces.root
    named = dict(zip(piece.form.inputs, piece.parameters, strict=True))
    weights = [
        f'    "{trace.values[value].name}": {name},'
        for value, name in named.items()
        if is_weight(trace, value) and trace.values[value].kind != "const"
    ]
    given = [
        _written(each, [named[value] for value in trace.inputs]) for each in trace.input_structure
    ]
    lines = [
        'original = {"__name__": "original"}',
        'exec(compile(ORIGINAL, "original.py", "exec"), original)',
        'init = original.get("get_init_inputs", list)()',
        "with torch.random.fork_rng(devices=[]):",
        f'    made_of = original["{source.entry}"]',
        "    model = made_of(**init) if isinstance(init, dict) else made_of(*init)",
        "weights = {",
        *weights,
        "}",
        f"made = torch.func.functional_call(model, weights, ({''.join(f'{each}, ' for each in given)}))",
        "made = list({id(each): each for each in tensors_in(made)}.values())",
        "return made[0] if len(made) == 1 else tuple(made)",
    ]
    body = definition("def forward", ["self", *piece.parameters], lines)
    head = ["class Model(nn.Module):", '    """The original, with its weights as inputs."""', ""]
    return [*head, *(f"    {line}" for line in body)]


def _written(structure: Any, names: list[str]) -> str:
    """Write an argument of forward from the inputs it is made of."""
    match structure:
        case bool():
            return repr(structure)
        case int():
            return names[structure]
        case Plain():
            return repr(structure.value)
        case tuple():
            return f"({''.join(f'{_written(each, names)}, ' for each in structure)})"
        case list():
            return f"[{', '.join(_written(each, names) for each in structure)}]"
        case dict():
            inner = ", ".join(
                f"{key!r}: {_written(each, names)}" for key, each in structure.items()
            )
            return f"{{{inner}}}"
        case _:
            return repr(structure)
