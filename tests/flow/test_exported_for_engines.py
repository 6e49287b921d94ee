"""`export solution --as vllm` and `--as hf-kernels`: installed away from here, counted as used by the library."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from flashinfer_bench.data import TraceSet
from tests.commands import call
from tests.flow import installed_packages as installed
from tests.unit.apply.datasets import trace

BUNDLED = Path(__file__).parents[2] / "examples" / "dataset"
VLLM = """
import sys
from importlib.metadata import entry_points
(found,) = [each for each in entry_points(group="vllm.general_plugins") if each.name == "fib_" + sys.argv[1]]
print(found.load().__name__)
"""
IN_VLLM = """
import torch
from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
from vllm.plugins import load_general_plugins
load_general_plugins()
import fib_rmsnorm_h4096 as package
from fib_rmsnorm_h4096.vllm_plugin import register
register()  # twice is as good as once
from vllm.model_executor.layers.layernorm import RMSNorm

with set_current_vllm_config(VllmConfig(device_config=DeviceConfig(device="cpu"))):
    layer, other = (RMSNorm(4096, eps=eps, dtype=torch.bfloat16) for eps in (1e-5, 1e-6))
    x = torch.randn(32, 4096).bfloat16()
    with torch.inference_mode():
        torch.testing.assert_close(layer(x), package.original.run(x, layer.weight.data))
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        compiled(x)
        compiled(x[:7].contiguous())  # never measured: the reference
        other(x), layer(x, x)  # another epsilon, a residual: vLLM's own
assert (layer.name, type(layer).__name__) == ("rms_norm", "Replaced")
print(dict(package.CALLS))
"""
IN_KERNELS = """
import sys
from pathlib import Path
import torch
from kernels import LocalLayerRepository, Mode, get_local_kernel, kernelize, use_kernel_forward_from_hub
from kernels import use_kernel_mapping
mode = Mode.INFERENCE | Mode.TORCH_COMPILE
folder = Path(sys.argv[1])


@use_kernel_forward_from_hub("RMSNorm")
class Norm(torch.nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.weight, self.variance_epsilon = torch.nn.Parameter(torch.ones(4096)), eps

    def forward(self, hidden_states):
        return torch.nn.functional.rms_norm(hidden_states, (4096,), self.weight, self.variance_epsilon)


model = torch.nn.Sequential(Norm(1e-5), Norm(1e-6)).bfloat16().eval()
x = torch.randn(1, 32, 4096).bfloat16()
mapping = {"RMSNorm": {"cpu": {mode: LocalLayerRepository(folder, layer_name="RMSNorm")}}}
with torch.no_grad():
    expected = model(x)
    with use_kernel_mapping(mapping):
        model = kernelize(model, mode=mode, device="cpu", use_fallback=False)
    torch.testing.assert_close(model(x), expected, rtol=2e-2, atol=2e-2)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), model(x))
    compiled(x[:, :7])  # never measured: the reference
package = get_local_kernel(folder)
assert "flashinfer_bench" not in sys.modules
print(dict(package.CALLS))
"""

IN_TRANSFORMERS = """
import sys
from pathlib import Path
import torch
from kernels import LocalLayerRepository, Mode, get_local_kernel, kernelize, use_kernel_forward_from_hub
from kernels import use_kernel_mapping
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm
if not hasattr(LlamaRMSNorm, "kernel_layer_name"):  # it does so for other releases
    use_kernel_forward_from_hub("RMSNorm")(LlamaRMSNorm)
mode, folder = Mode.INFERENCE, Path(sys.argv[1])
sizes = dict(vocab_size=256, hidden_size=4096, intermediate_size=256, num_hidden_layers=2)
config = LlamaConfig(**sizes, num_attention_heads=32, num_key_value_heads=8, rms_norm_eps=float(sys.argv[2]))
model = LlamaForCausalLM(config).bfloat16().eval()
tokens = torch.randint(0, 256, (1, 32))
mapping = {"RMSNorm": {"cpu": {mode: LocalLayerRepository(folder, layer_name="RMSNorm")}}}
with torch.no_grad():
    expected = model(tokens).logits
    with use_kernel_mapping(mapping, inherit_mapping=False):
        model = kernelize(model, mode=mode, device="cpu")
    torch.testing.assert_close(model(tokens).logits, expected, rtol=5e-2, atol=5e-2)
print(dict(get_local_kernel(folder).CALLS))
"""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled dataset, with traces in which each C++ solution is the best at its workloads."""
    root = tmp_path_factory.mktemp("export") / "dataset"
    shutil.copytree(BUNDLED, root, ignore=shutil.ignore_patterns("traces"))
    found = TraceSet.from_path(root)
    found.add_traces(
        [
            trace(f"{name}_cpp", dict(each.workload.axes), of=name)
            for name, workloads in found.workloads.items()
            for each in workloads
        ]
    )
    return root


def export(
    dataset: Path, solution: str, form: str, output: Path
) -> subprocess.CompletedProcess[str]:
    words = ("--as", form, "--output", output, "--local", dataset)
    return call("export", "solution", solution, *words)


@pytest.mark.full
def test_a_layer_of_vllm_finds_the_kernel_by_its_entry_point(dataset: Path, tmp_path: Path) -> None:
    done = export(dataset, "rmsnorm_h4096_cpp", "vllm", tmp_path / "plugin")
    assert done.returncode == 0, done.stderr
    python = installed.clean_environment(tmp_path / "env")
    installed.install(python, tmp_path / "plugin")

    assert installed.run(python, VLLM, "rmsnorm_h4096") == "register\n"
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("the entry point was found and loaded; vllm is not installed to call it")
    printed = installed.run(python, IN_VLLM)
    assert printed.splitlines()[-1] == "{'kernel': 2, 'original': 1}"


def test_kernels_loads_the_layer_and_calls_it(dataset: Path, tmp_path: Path) -> None:
    pytest.importorskip("kernels")
    done = export(dataset, "rmsnorm_h4096_cpp", "hf-kernels", tmp_path / "kernel")
    assert done.returncode == 0, done.stderr
    assert f"LocalLayerRepository(Path('{tmp_path}/kernel'), layer_name='RMSNorm')" in done.stdout
    build = tmp_path / "kernel" / "build" / "torch-cpu"
    assert json.loads((build / "metadata.json").read_text())["python-depends"] == ["tvm-ffi"]
    python = installed.clean_environment(tmp_path / "env")
    moved = shutil.copytree(tmp_path / "kernel", tmp_path / "elsewhere")

    printed = installed.run(python, IN_KERNELS, moved)

    assert printed.splitlines()[-1] == "{'kernel': 3, 'original': 1}"  # twice plain, once compiled


@pytest.mark.full
@pytest.mark.parametrize(("epsilon", "calls"), [("1e-5", "{'kernel': 5}"), ("1e-6", "{}")])
def test_layers_of_transformers_call_the_kernel_where_their_epsilon_fits(
    dataset: Path, tmp_path: Path, epsilon: str, calls: str
) -> None:
    pytest.importorskip("kernels")
    pytest.importorskip("transformers")
    done = export(dataset, "rmsnorm_h4096_cpp", "hf-kernels", tmp_path / "kernel")
    assert done.returncode == 0, done.stderr
    python = installed.clean_environment(tmp_path / "env")

    printed = installed.run(python, IN_TRANSFORMERS, tmp_path / "kernel", epsilon)

    assert printed.splitlines()[-1] == calls


def test_what_an_engine_has_no_place_for_is_refused(dataset: Path, tmp_path: Path) -> None:
    done = export(dataset, "gemm_n1024_k4096_cpp", "vllm", tmp_path / "out")

    assert done.returncode == 2
    assert "layers of vLLM are known of fused_add_rmsnorm, rmsnorm, silu_and_mul" in done.stderr
    assert not (tmp_path / "out").exists()
