"""What SOL-ExecBench draws by name and description, as distributions."""

from __future__ import annotations

import pytest

from flashinfer_bench.data.distributions import FloatForm, Normal, Probabilities, Uniform
from flashinfer_bench.sol_execbench.random_inputs import drawn_there


@pytest.mark.parametrize(
    ("name", "shape", "said", "drawn"),
    [
        ("norm_weight", [4], None, FloatForm(form="ones")),
        ("input_layernorm_weight", [4], None, FloatForm(form="ones")),
        ("q_norm2_bias", [4], None, FloatForm(form="zeros")),
        ("causal_mask", [4, 4], None, FloatForm(form="causal_mask")),
        ("m", [4, 4], "Causal attention mask", FloatForm(form="causal_mask")),
        ("attention_mask", [2, 4], None, FloatForm(form="zero_or_one")),
        ("pad_mask", [4], "1.0 for valid", FloatForm(form="zero_or_one")),
        ("pad_mask", [4], None, None),
        ("cos", [4], None, FloatForm(form="cosine")),
        ("rope_sin", [4], None, FloatForm(form="sine")),
        ("x_rstd", [4], None, FloatForm(form="positive")),
        ("var1", [4], None, FloatForm(form="positive")),
        ("A_cumsum", [4], None, FloatForm(form="decay")),
        ("A", [4, 4], None, Uniform(low=-1.0, high=-0.001)),
        ("routing_weights", [4, 4], None, Probabilities()),
        ("p", [4, 4], "Output of the softmax", Probabilities()),
        ("q_proj", [2, 16], None, Normal(std=0.25)),
        ("weight2", [2, 16], None, Normal(std=0.25)),
        ("weight", [16], None, None),
        ("x", [2, 16], None, None),
    ],
)
def test_names_and_descriptions_decide(
    name: str, shape: list[int], said: str | None, drawn: object
) -> None:
    assert drawn_there(name, shape, "float32", said, None) == drawn
    assert drawn_there(name, shape, "int32", said, None) is None


def test_probabilities_of_sampling_problems_add_up_to_one() -> None:
    assert drawn_there("probs", [4], "float32", None, "sampling") == Probabilities()
