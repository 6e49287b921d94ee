"""The bundled dataset keeps its promises: what it holds, and that its kernels are right."""

from __future__ import annotations

import importlib.util
import json
import math
import runpy
import shutil
import subprocess
import sys
import uuid
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flashinfer_bench.compile import build
from flashinfer_bench.compile.sources import reference_solution
from flashinfer_bench.data import SafetensorsInput, ScalarInput, TraceSet, Workload
from flashinfer_bench.data.scaffolding.definitions import SeenGradients
from flashinfer_bench.data.scaffolding.gradients import backward_of, forward_backward_of
from flashinfer_bench.data.workload import uuid_of
from flashinfer_bench.judging import Tolerance
from flashinfer_bench.tensors.planned import plan_inputs, plan_outputs
from tests.marks import mostly_full

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flashinfer_bench.data import Definition, Solution

torch = pytest.importorskip("torch", reason="the dataset's kernels take torch tensors")

from flashinfer_bench.judging.judges import judge_for  # noqa: E402  # needs torch

ROOT = Path(__file__).parents[2] / "examples" / "dataset"
ATTENTION = "gqa_paged_decode_h32_kv8_d128_ps1"
SAMPLING = "top_k_sampling_from_probs_v32000"
ROPE = "rope_with_cos_sin_cache_neox_style_d128_rd128"
DEFINITIONS = {
    "fused_add_rmsnorm": "fused_add_rmsnorm_h4096",
    "gemm": "gemm_n1024_k4096",
    "gqa_paged": ATTENTION,
    "moe_routing": "moe_routing_softmax_topk8_e128",
    "rmsnorm": "rmsnorm_h4096",
    "rmsnorm_backward": "rmsnorm_h4096_backward",
    "rmsnorm_forward_backward": "rmsnorm_h4096_forward_backward",
    "rope": ROPE,
    "sampling": SAMPLING,
    "silu_and_mul": "silu_and_mul_i14336",
    "softmax": "softmax_v128256",
}
GRADIENTS = ("rmsnorm_h4096_backward", "rmsnorm_h4096_forward_backward")
EVERYWHERE = ["baseline", "cpp", "pytorch"]
ALSO = {
    "rmsnorm_h4096": ["cuda", "tilelang", "triton"],
    "rmsnorm_h4096_backward": ["triton"],
    "rmsnorm_h4096_forward_backward": ["triton"],
    "fused_add_rmsnorm_h4096": ["triton"],
    "silu_and_mul_i14336": ["triton"],
    "softmax_v128256": ["triton"],
    "gemm_n1024_k4096": ["cpp"],  # packs its weights beforehand
}
SMALL_BYTES = 32 << 20
ODD_ROWS = (0, 1, 3, 7, 33)
TABLES = {
    ATTENTION: ("k_cache", "v_cache"),
    ROPE: ("cos_sin_cache", "positions"),
    "gqa_decode_h8_kv2_d16": ("keys", "values"),
    "rope_h8_kv2_d16": ("table",),
}
"""Inputs of which a call reads a part."""
needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
each_definition = pytest.mark.parametrize("name", sorted(DEFINITIONS.values()))
each_deterministic_one = pytest.mark.parametrize(
    "name", sorted({*DEFINITIONS.values()} - {SAMPLING})
)


@dataclass(frozen=True)
class Dataset:
    """The dataset, and a cache of builds that lasts for this module."""

    traces: TraceSet
    cache: Path

    def definition(self, name: str) -> Definition:
        return self.traces.definitions[name]

    def workloads(self, name: str, size_class: str = "all") -> list[Workload]:
        """Workloads of a class, the one with the fewest elements first."""
        found = [each.workload for each in self.traces.workloads[name]]
        mine = [workload for workload in found if workload.is_of_class(size_class)]
        return sorted(mine, key=lambda workload: self.input_bytes(name, workload))

    def input_bytes(self, name: str, workload: Workload) -> int:
        definition = self.definition(name)
        shapes = definition.get_input_shapes(workload.axes)
        sizes = [dtype.itemsize for dtype in definition.torch_input_dtypes]
        return sum(math.prod(shape or ()) * size for shape, size in zip(shapes, sizes, strict=True))

    def solutions(self, name: str, *languages: str) -> list[Solution]:
        return [each for each in self.traces.solutions[name] if each.spec.language in languages]

    def expected(self, name: str, inputs: list[Any]) -> list[Any]:
        solution, signature = reference_solution(self.definition(name)), self.signature(name)
        returned = build(solution, signature, cache_root=self.cache).call_value_returning(*inputs)
        return list(returned) if isinstance(returned, tuple) else [returned]

    def computed(self, solution: Solution, inputs: list[Any], like: list[Any]) -> list[Any]:
        """Call a solution on destinations whose content shows where it was not written."""
        signature = self.signature(solution.definition)
        runnable = build(solution, signature, cache_root=self.cache)
        destinations = [torch.full_like(each, unwritten(each)) for each in like]
        if runnable.prepare is None:
            runnable.call_destination_passing(*inputs, *destinations)
            return destinations
        named = zip(inputs, self.definition(solution.definition).inputs.values(), strict=True)
        state = runnable.prepare(*(value for value, spec in named if spec.role == "static"))
        runnable.callable(state, *inputs, *destinations)
        return destinations

    def signature(self, name: str) -> Any:
        return self.definition(name).signature()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return Dataset(TraceSet.from_path(str(ROOT)), tmp_path_factory.mktemp("builds"))


def unwritten(tensor: Any) -> float:
    return torch.nan if tensor.dtype.is_floating_point else -1


def drawn(definition: Definition, axes: Mapping[str, int], given: Mapping[str, Any]) -> list[Any]:
    """Standard normal tensors of the given sizes, but for those given."""
    generator = torch.Generator().manual_seed(20)
    shapes = definition.get_input_shapes(axes)
    specs = zip(definition.inputs, shapes, definition.torch_input_dtypes, strict=True)
    return [
        given[name] if name in given else torch.randn(shape, generator=generator).to(dtype)
        for name, shape, dtype in specs
    ]


def inputs_of(dataset: Dataset, name: str, workload: Workload) -> list[Any]:
    scalars = {
        each: source.value
        for each, source in workload.inputs.items()
        if isinstance(source, ScalarInput)
    }
    return drawn(dataset.definition(name), workload.axes, scalars | stored(dataset, workload))


def odd_inputs(dataset: Dataset, name: str, rows: int) -> list[Any]:
    """Inputs of so many rows, tokens or sequences; other sizes are odd too."""
    definition = dataset.definition(name)
    given: dict[str, Any] = {"temperature": 0.1, "sm_scale": 0.3}
    axes = dict.fromkeys(definition.var_axes, rows)
    if name == ROPE:
        axes |= {"num_qo_heads": 5, "num_kv_heads": 3, "max_seq_len": 41}
        given["positions"] = torch.arange(rows) * 7 % 41
    if name == ATTENTION:
        lengths = torch.arange(rows) * 37 % 131  # none, less than a block, several
        used = int(lengths.sum())
        axes |= {"len_indptr": rows + 1, "num_kv_indices": used, "num_pages": used + 5}
        bounds = torch.cat((torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)))
        given["kv_indptr"] = bounds.to(torch.int32)
        given["kv_indices"] = torch.arange(used + 5).flip(0)[:used].to(torch.int32)
    return drawn(definition, axes, given)


def special_inputs(dataset: Dataset, name: str) -> list[Any]:
    """Five odd rows with a NaN, an infinity and a minus infinity in the first tensor."""
    inputs = odd_inputs(dataset, name, 5)
    flat = inputs[0].view(5, -1)
    flat[1, 3], flat[2, 40], flat[3, 90] = torch.nan, torch.inf, -torch.inf
    return inputs


def mismatches(got: list[Any], wanted: list[Any]) -> int:
    """Count elements off by more than 1e-2, absolutely and relatively; integers off at all."""
    return sum(_mismatches(ours, theirs) for ours, theirs in zip(got, wanted, strict=True))


def _mismatches(got: Any, wanted: Any) -> int:
    if not wanted.dtype.is_floating_point:
        return int((got != wanted).sum())
    got, wanted = got.double(), wanted.double()
    error = (got - wanted).abs()
    close = (error <= 1e-2) | (error / (wanted.abs() + 1e-8) <= 1e-2)
    same = (got == wanted) | (got.isnan() & wanted.isnan())
    return int((~(close | same)).sum())


def test_it_holds_nine_operations_and_the_gradients_of_one(dataset: Dataset) -> None:
    found = {each.op_type: each.name for each in dataset.traces.definitions.values()}

    assert found == DEFINITIONS
    assert len(dataset.traces.definitions) == len(DEFINITIONS) == 9 + len(GRADIENTS)


@each_definition
def test_every_axis_and_tensor_is_described(dataset: Dataset, name: str) -> None:
    definition = dataset.definition(name)

    parts = {**definition.axes, **definition.inputs, **definition.outputs}

    assert definition.description
    assert [part for part, spec in parts.items() if not spec.description] == []


@each_definition
@pytest.mark.parametrize("size_class", ["small", "full"])
def test_every_class_has_at_least_three_workloads_that_fit(
    dataset: Dataset, name: str, size_class: str
) -> None:
    workloads = dataset.workloads(name, size_class)

    for workload in workloads:
        dataset.definition(name).require_workload(workload)

    assert len(workloads) >= 3


@each_definition
def test_small_is_small_and_full_is_larger(dataset: Dataset, name: str) -> None:
    small = [dataset.input_bytes(name, each) for each in dataset.workloads(name, "small")]
    full = [dataset.input_bytes(name, each) for each in dataset.workloads(name, "full")]

    assert max(small) <= SMALL_BYTES
    assert max(full) > 4 * max(small)


@each_definition
def test_a_workloads_uuid_is_the_one_derived_from_its_content(dataset: Dataset, name: str) -> None:
    workloads = dataset.workloads(name)

    derived = [Workload(axes=each.axes, inputs=each.inputs).uuid for each in workloads]
    if name in GRADIENTS:  # two definitions have the same sizes and inputs
        derived = [uuid_of(name, each.axes, each.inputs) for each in workloads]

    assert [each.uuid for each in workloads] == derived
    assert {uuid.UUID(identifier).version for identifier in derived} == {5}


def test_no_two_workloads_have_the_same_uuid(dataset: Dataset) -> None:
    found = [each.uuid for name in DEFINITIONS.values() for each in dataset.workloads(name)]

    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("name", "derive"),
    [(GRADIENTS[0], backward_of), (GRADIENTS[1], forward_backward_of)],
)
def test_gradients_are_what_new_definition_makes_of_the_forward(
    dataset: Dataset, name: str, derive: Callable[[Definition, SeenGradients], Definition]
) -> None:
    forward = dataset.definition("rmsnorm_h4096")

    made = derive(forward, SeenGradients(inputs=["hidden_states", "weight"], outputs=[0]))

    definition = dataset.definition(name)
    assert definition.reference == made.reference
    assert definition.op_type == made.op_type
    for given, wanted in ((definition.inputs, made.inputs), (definition.outputs, made.outputs)):
        bare = [(key, spec.shape, spec.dtype, spec.role) for key, spec in given.items()]
        assert bare == [(key, spec.shape, spec.dtype, spec.role) for key, spec in wanted.items()]
    for workload in dataset.workloads(name):
        assert workload.tolerance is not None
        assert workload.tolerance.max_precision_ratio == 8


def test_workloads_and_their_files_are_what_the_script_makes(tmp_path: Path) -> None:
    script = shutil.copy(ROOT / "make_workloads.py", tmp_path)
    kept = {path.relative_to(ROOT): path.read_bytes() for path in written_files(ROOT)}

    runpy.run_path(script, run_name="__main__")

    made = {path.relative_to(tmp_path): path.read_bytes() for path in written_files(tmp_path)}
    assert made == kept


def written_files(root: Path) -> list[Path]:
    folders = (root / "workloads", root / "blob")
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


def test_positions_lie_within_their_tables(dataset: Dataset) -> None:
    for workload in dataset.workloads(ROPE):
        positions = stored(dataset, workload)["positions"]

        assert positions.dtype is torch.int64
        assert list(positions.shape) == [workload.axes["num_tokens"]]
        assert 0 <= positions.min() <= positions.max() < workload.axes["max_seq_len"]


def test_page_tables_share_out_different_pages_of_the_cache(dataset: Dataset) -> None:
    for workload in dataset.workloads(ATTENTION):
        axes = workload.axes
        inputs = stored(dataset, workload)
        bounds, pages = inputs["kv_indptr"], inputs["kv_indices"]

        assert (bounds.dtype, pages.dtype) == (torch.int32, torch.int32)
        assert list(bounds.shape) == [axes["batch_size"] + 1] == [axes["len_indptr"]]
        assert (bounds[0], bounds[-1]) == (0, axes["num_kv_indices"])
        assert (bounds.diff() > 0).all()
        assert len(pages.unique()) == len(pages) == axes["num_kv_indices"]
        assert 0 <= pages.min() <= pages.max() < axes["num_pages"]


def stored(dataset: Dataset, workload: Workload) -> dict[str, Any]:
    """The inputs of a workload that come from files."""
    return {
        each: dataset.traces.get_workload_blob_tensor(source.path)[source.tensor_key]
        for each, source in workload.inputs.items()
        if isinstance(source, SafetensorsInput)
    }


@each_definition
def test_the_authors_of_a_definition_are_those_promised(dataset: Dataset, name: str) -> None:
    authors = sorted(solution.author for solution in dataset.traces.solutions[name])

    assert authors == sorted(EVERYWHERE + ALSO.get(name, []))


@each_definition
def test_a_reference_returns_the_declared_shapes_and_dtypes(dataset: Dataset, name: str) -> None:
    definition, workload = dataset.definition(name), dataset.workloads(name)[0]

    outputs = dataset.expected(name, inputs_of(dataset, name, workload))

    assert [list(each.shape) for each in outputs] == definition.get_output_shapes(workload.axes)
    assert [each.dtype for each in outputs] == definition.torch_output_dtypes


@each_deterministic_one
def test_python_solutions_agree_with_the_reference(dataset: Dataset, name: str) -> None:
    inputs = inputs_of(dataset, name, dataset.workloads(name)[0])
    wanted = dataset.expected(name, inputs)

    wrong = {
        solution.author: mismatches(dataset.computed(solution, inputs, wanted), wanted)
        for solution in dataset.solutions(name, "python")
    }

    assert wrong == {"baseline": 0, "pytorch": 0}


@needs_a_compiler
@pytest.mark.parametrize(
    "name",
    mostly_full(sorted({*DEFINITIONS.values()} - {SAMPLING}), "rmsnorm_h4096"),
)
def test_cpp_solutions_agree_with_the_reference_on_odd_sizes(dataset: Dataset, name: str) -> None:
    wrong = count_wrong(dataset, name, "cpp", ODD_ROWS)

    assert set(wrong.values()) == {0}, wrong


@pytest.mark.parametrize("name", [ATTENTION, ROPE])
def test_python_solutions_agree_with_the_reference_on_odd_sizes(
    dataset: Dataset, name: str
) -> None:
    wrong = count_wrong(dataset, name, "python", ODD_ROWS[:-1])

    assert set(wrong.values()) == {0}, wrong


def count_wrong(
    dataset: Dataset, name: str, language: str, counts: tuple[int, ...]
) -> dict[tuple[str, int], int]:
    wrong = {}
    for rows in counts:
        inputs = odd_inputs(dataset, name, rows)
        wanted = dataset.expected(name, inputs)
        for solution in dataset.solutions(name, language):
            got = dataset.computed(solution, inputs, wanted)
            wrong[solution.name, rows] = mismatches(got, wanted)
    return wrong


@needs_a_compiler
@pytest.mark.parametrize(
    "name",
    mostly_full(sorted({*DEFINITIONS.values()} - {SAMPLING}), "rmsnorm_h4096", "gemm_n1024_k4096"),
)
def test_cpp_solutions_agree_with_the_reference_on_nan_and_infinities(
    dataset: Dataset, name: str
) -> None:
    inputs = special_inputs(dataset, name)
    wanted = dataset.expected(name, inputs)

    wrong = {
        solution.name: mismatches(dataset.computed(solution, inputs, wanted), wanted)
        for solution in dataset.solutions(name, "cpp")
    }

    assert any(not each.isfinite().all() for each in wanted if each.dtype.is_floating_point)
    assert set(wrong.values()) == {0}, wrong


@pytest.mark.parametrize(
    ("top_k", "rows"),
    mostly_full(product((1, 7, 500, 600, 32000), (1, 3, 33)), (1, 33), (7, 33)),
)
def test_samplers_draw_what_their_judge_wants(dataset: Dataset, rows: int, top_k: int) -> None:
    logits = torch.randn(rows, 32000, generator=torch.Generator().manual_seed(rows))
    inputs = [torch.softmax(logits * 4, dim=-1), top_k]
    judge = judge_for(dataset.definition(SAMPLING))
    like = [torch.empty(rows, dtype=torch.int64)]
    solutions = dataset.solutions(SAMPLING, "python", *compiled_languages())

    verdicts = {}
    for solution in solutions:
        draws = [dataset.computed(solution, inputs, like) for _ in range(-(-300 // rows))]
        verdicts[solution.author] = judge.open_case(Tolerance(1e-2, 1e-2)).hear_repeats(
            inputs, draws
        )

    wrong = {author: each.explanation for author, each in verdicts.items() if not each.is_accepted}
    assert len(verdicts) >= 2
    assert wrong == {}


def test_equal_logits_go_to_the_lower_expert(dataset: Dataset) -> None:
    name = DEFINITIONS["moe_routing"]
    logits = torch.tensor([0.0, -0.0, 1.0, 1.0] * 32).expand(3, 128).contiguous()
    wanted = dataset.expected(name, [logits])

    wrong = {
        solution.author: mismatches(dataset.computed(solution, [logits], wanted), wanted)
        for solution in dataset.solutions(name, "python", *compiled_languages())
    }

    assert wanted[1][0].tolist() == [2, 3, 6, 7, 10, 11, 14, 15]
    assert set(wrong.values()) == {0}, wrong


def compiled_languages() -> list[str]:
    return ["cpp"] if shutil.which("g++") else []


@needs_a_compiler
@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        (ROPE, lambda inputs: inputs[3].fill_(41), "beyond the 41 rows"),
        pytest.param(
            *(ATTENTION, lambda inputs: inputs[4].fill_(10_000), "must name pages"),
            marks=pytest.mark.full,
        ),
        pytest.param(
            ATTENTION, lambda inputs: inputs[3].neg_(), "must rise", marks=pytest.mark.full
        ),
    ],
)
def test_a_cpp_solution_refuses_to_read_outside_its_tables(
    dataset: Dataset, name: str, spoil: Callable[[list[Any]], Any], message: str
) -> None:
    inputs = odd_inputs(dataset, name, 3)
    wanted = dataset.expected(name, inputs)
    spoil(inputs)
    (solution,) = dataset.solutions(name, "cpp")

    with pytest.raises(ValueError, match=message):
        dataset.computed(solution, inputs, wanted)


@each_deterministic_one
def test_the_tolerance_notices_an_output_that_is_one_part_in_twenty_too_large(
    dataset: Dataset, name: str
) -> None:
    wanted = dataset.expected(name, inputs_of(dataset, name, dataset.workloads(name)[0]))
    floating = [each for each in wanted if each.dtype.is_floating_point]

    assert [mismatches([each * 1.05], [each]) > 0 for each in floating] == [True] * len(floating)


@pytest.mark.parametrize("name", GRADIENTS)
def test_the_tolerance_notices_a_gradient_that_lacks_a_term(dataset: Dataset, name: str) -> None:
    inputs = inputs_of(dataset, name, dataset.workloads(name, "small")[-1])
    wanted = dataset.expected(name, inputs)
    (right,) = (each for each in dataset.solutions(name, "python") if each.author == "pytorch")
    (source,) = right.sources
    wrong = source.model_copy(
        update={"content": source.content.replace(".sub_(normalised.mul_(mean))", "")}
    )

    got = dataset.computed(right.model_copy(update={"sources": [wrong]}), inputs, wanted)

    assert wrong != source
    assert mismatches(got, wanted) > 0


@pytest.mark.full
@pytest.mark.parametrize("language", ["triton", "tilelang"])
def test_kernels_in_gpu_languages_agree_with_the_reference_without_a_gpu(
    dataset: Dataset, language: str
) -> None:
    if importlib.util.find_spec(language) is None:
        pytest.skip(f"{language} is not installed")
    names = [name for name in DEFINITIONS.values() if dataset.solutions(name, language)]

    done = run_smallest(dataset, language, options=["--device", "cpu"])

    counts = json.loads(done.stdout)["counts"]
    assert counts["passed"] == counts["planned"] == len(names), done.stdout + done.stderr


@pytest.mark.full
def test_gpu_kernels_compile_where_there_is_no_gpu(dataset: Dataset) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU, and they run")
    has = {"triton": importlib.util.find_spec("triton"), "cuda": shutil.which("nvcc")}
    languages = [language for language, tool in has.items() if tool]
    if not languages:
        pytest.skip("neither triton nor nvcc is installed")
    wanted = {
        each.name for name in DEFINITIONS.values() for each in dataset.solutions(name, *languages)
    }

    done = run_smallest(dataset, *languages, options=["--arch", "sm_90"])

    skipped = json.loads(done.stdout)["run"]["skipped"]
    assert {each["solution"] for each in skipped} == wanted, done.stdout + done.stderr
    assert {each["reason"] for each in skipped} == {"built for sm_90, no CUDA device"}


def run_smallest(
    dataset: Dataset, *languages: str, options: list[str]
) -> subprocess.CompletedProcess[str]:
    """Run the solutions in these languages, once each, on the smallest workload of each definition."""
    names = [name for name in DEFINITIONS.values() if dataset.solutions(name, *languages)]
    smallest = [dataset.workloads(name, "small")[0].uuid for name in names]
    command = [sys.executable, "-m", "flashinfer_bench", "run", "--local", str(ROOT), *options]
    command += ["--authors", *languages, "--workloads", *smallest, "--num-trials", "1"]
    command += ["--warmup-runs", "0", "--iterations", "1", "--no-profile-baseline"]
    command += ["--no-save-results", "--json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    "file",
    sorted(ROOT.parent.glob("**/dataset/definitions/*/*.json")),
    ids=lambda file: file.stem,
)
def test_a_definition_declares_the_floor_that_its_tensors_set(file: Path) -> None:
    dataset = TraceSet.from_path(file.parents[2])
    definition = dataset.definitions[file.stem]
    workloads = [each.workload for each in dataset.workloads.get(file.stem, ())]
    workload = workloads[-1] if workloads else any_workload(definition)
    tensors = [
        plan
        for plan in plan_inputs(definition, workload)
        if plan.source != "scalar" and plan.tensor.name not in TABLES.get(file.stem, ())
    ]
    size = sum(plan.tensor.size_bytes for plan in tensors)
    size += sum(plan.size_bytes for plan in plan_outputs(definition, workload))

    floor = definition.lower_bound("min_bytes", workload.axes)

    assert floor is not None
    assert floor >= size if file.stem in TABLES else floor == size


def any_workload(definition: Definition) -> Workload:
    inputs = {
        name: {"type": "random"} if spec.shape is not None else {"type": "scalar", "value": 1}
        for name, spec in definition.inputs.items()
    }
    return Workload(axes=dict.fromkeys(definition.var_axes, 7), inputs=inputs)
