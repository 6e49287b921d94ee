"""Names that scripts elsewhere import stay where they are."""

from __future__ import annotations

import importlib

import pytest

NAMES = {
    "flashinfer_bench": """
        Benchmark BenchmarkConfig Definition Solution Trace TraceSet AxisConst AxisVar TensorSpec SourceFile
        BuildSpec SupportedLanguages RandomInput SafetensorsInput Workload Correctness Performance Environment
        Evaluation EvaluationStatus measure compare apply enable_apply disable_apply ApplyConfig ApplyConfigRegistry
        FFI_PROMPT FFI_PROMPT_SIMPLE
    """,
    "flashinfer_bench.data": """
        AxisConst AxisSpec AxisVar TensorSpec Definition SourceFile BuildSpec SupportedBindings
        SupportedLanguages Solution RandomInput ScalarInput SafetensorsInput InputSpec Workload Correctness
        Performance Environment Evaluation EvaluationStatus Trace SpeedupMetrics TraceSet TraceSetSummary
        save_json_file load_json_file save_jsonl_file load_jsonl_file append_jsonl_file DType Profile
    """,
    "flashinfer_bench.bench": "Benchmark BenchmarkConfig EvalConfig ResolvedEvalConfig",
    "flashinfer_bench.apply": """
        apply disable_apply enable_apply ApplyConfig ApplyConfigRegistry ApplyRuntime get_default_registry
    """,
    "flashinfer_bench.agents": """
        flashinfer_bench_list_ncu_options flashinfer_bench_run_ncu flashinfer_bench_run_sanitizer function_to_schema
        get_all_tool_schemas FFI_PROMPT_SIMPLE FFI_PROMPT extract_solution_to_files pack_solution_from_files
    """,
    "flashinfer_bench.compile": "Builder BuildError BuilderRegistry Runnable RunnableMetadata",
}
PATHS = [(module, name) for module, names in NAMES.items() for name in names.split()]


@pytest.mark.parametrize(("module", "name"), PATHS)
def test_a_public_name_is_where_scripts_import_it(module: str, name: str) -> None:
    package = importlib.import_module(module)

    assert hasattr(package, name)
    assert name in dir(package)
