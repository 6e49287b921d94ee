from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from flashinfer_bench.data import KernelReference, KernelSignature, Profile, Workload
from flashinfer_bench.errors import DatasetError, DatasetWarning

if TYPE_CHECKING:
    from pathlib import Path

CODE = "import torch\n\n\ndef forward(a, b):\n    return a @ b\n"
SIGNATURE: dict[str, Any] = {
    "name": "gemm_n16_k8",
    "axes": {"M": 4, "K": {"type": "const", "value": 8}},
    "inputs": {
        "a": {"shape": ["M", "K"], "dtype": "float16"},
        "b": {"shape": ["K", 16], "dim_order": [1, 0], "dtype": "float16"},
    },
    "outputs": {"c": {"shape": ["M", 16], "dtype": "float16"}},
    "code": CODE,
}
PROFILE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "framework": "SGLang",
    "kernels": [
        {"kernel": SIGNATURE, "count": 32},
        {"kernel": {"definition": "rmsnorm_h4096", "axes": {"rows": 1}}, "count": 65},
    ],
}


def test_a_profile_holds_signatures_and_references() -> None:
    profile = Profile.model_validate(PROFILE)

    first, second = profile.kernels

    assert isinstance(first.kernel, KernelSignature)
    assert second.kernel == KernelReference(definition="rmsnorm_h4096", axes={"rows": 1})
    assert (first.count, second.count) == (32, 65)
    assert Profile.model_validate_json(profile.to_json()) == profile


def test_a_signature_becomes_a_definition_and_a_workload() -> None:
    signature = KernelSignature.model_validate(SIGNATURE)

    definition = signature.to_definition()
    workload = signature.to_workload()

    definition.require_workload(workload)
    assert (definition.name, definition.op_type) == ("gemm_n16_k8", "gemm")
    assert definition.reference == CODE.replace("forward", "run")
    assert definition.get_input_shapes({}) == [[4, 8], [8, 16]]
    assert workload.axes == {"M": 4, "K": 8}
    assert signature.to_definition(op_type="linear").op_type == "linear"


def test_a_definition_becomes_a_signature_and_comes_back(build: Any) -> None:
    definition, workload = build.definition(), build.workload(rows=8)

    signature = KernelSignature.from_definition(definition, workload)
    back = signature.to_definition(op_type="reduce")

    assert back.reference == definition.reference
    assert back.get_input_shapes({}) == definition.get_input_shapes({"rows": 8})
    assert signature.to_workload().axes == {"rows": 8, "N": 256}


def test_renaming_the_function_touches_nothing_else() -> None:
    code = (
        "import torch\ndef helper(m):\n    return m.forward(forward_mode='forward')\n"
        "def forward(é, b): x = 'é'; return b if é else forward(b, helper(é))\n"
    )

    reference = KernelSignature.model_validate(SIGNATURE | {"code": code}).to_definition().reference

    assert reference == code.replace("def forward", "def run").replace("else forward", "else run")


def test_a_name_that_is_taken_is_not_given_twice() -> None:
    code = "def run(a): return a\ndef forward(a, b): return run(a)\n"

    with pytest.raises(ValueError, match="'run' already"):
        KernelSignature.model_validate(SIGNATURE | {"code": code}).to_definition()


@pytest.mark.parametrize(
    "changes",
    [
        {"framework": "JAX"},
        {"model": ""},
        {"kernels": [{"kernel": SIGNATURE, "count": -1}]},
        {"kernels": [{"kernel": SIGNATURE | {"code": "def run(): pass"}, "count": 1}]},
        {"kernels": [{"kernel": SIGNATURE | {"code": "def forward("}, "count": 1}]},
        {"kernels": [{"kernel": {"axes": {}}, "count": 1}]},
    ],
)
def test_a_profile_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Profile.model_validate(PROFILE | changes)


def test_a_profile_written_by_hand_loads_with_a_warning(build: Any, tmp_path: Path) -> None:
    text = json.dumps(PROFILE, indent=1).replace('"count": 65', '"count": 65, // per token')
    path = build.write(tmp_path / "p.json", f"/* counts */ {text}")

    with pytest.warns(DatasetWarning, match=r"p\.json: comments or trailing commas"):
        profile = Profile.load(path)

    assert profile == Profile.model_validate(PROFILE)


def test_other_bad_json_is_an_error_with_its_place(build: Any, tmp_path: Path) -> None:
    path = build.write(tmp_path / "p.json", '{\n  "model": "m" // name\n  "framework": "vLLM"\n}')

    with pytest.raises(DatasetError, match=r"p\.json:3:3: not JSON"):
        Profile.load(path)


def test_a_field_error_of_a_profile_is_placed(build: Any, tmp_path: Path) -> None:
    text = json.dumps(PROFILE, indent=1).replace('"count": 65', '"count": "often"')
    path = build.write(tmp_path / "p.json", text)

    with pytest.raises(DatasetError, match=r"p\.json:\d+:\d+: Profile\.kernels\.1\.count"):
        Profile.load(path)


def test_unknown_keys_of_a_profile_warn_unless_strict(build: Any, tmp_path: Path) -> None:
    path = build.write(tmp_path / "p.json", json.dumps(PROFILE | {"note": "x"}))

    with pytest.warns(DatasetWarning, match="'note' of Profile"):
        Profile.load(path)
    with pytest.raises(DatasetError, match="note: unknown key"):
        Profile.load(path, strict=True)


def test_inputs_of_a_profile_workload_are_random() -> None:
    workload = KernelSignature.model_validate(SIGNATURE).to_workload()

    assert workload == Workload(
        axes={"M": 4, "K": 8}, inputs={"a": {"type": "random"}, "b": {"type": "random"}}
    )
