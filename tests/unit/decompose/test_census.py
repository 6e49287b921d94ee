"""What a census is made of: the rule of tiny configurations, kinds of kernel, the models that cover them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from flashinfer_bench.decompose.census.rows import (
    ArchitectureRow,
    CensusReport,
    covering_sets,
    kernel_dictionary,
)
from flashinfer_bench.decompose.census.shrinking import (
    DRAWN_TOKENS,
    STEPS,
    VOCABULARY,
    merged,
    reduced,
)

LLAMA = {
    "vocab_size": 32_000,
    "hidden_size": 4096,
    "intermediate_size": 11_008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "eos_token_id": 31_999,
    "pad_token_id": 31_999,
    "use_cache": True,
    "rms_norm_eps": 1e-6,
}


def tiny(**more: Any) -> dict[str, Any]:
    return reduced({**LLAMA, **more}, STEPS[0])


def test_heads_times_their_size_is_the_width_and_groups_stay_groups() -> None:
    made = tiny()

    assert made["hidden_size"] == made["num_attention_heads"] * made["head_dim"] == 64
    assert made["num_attention_heads"] % made["num_key_value_heads"] == 0
    assert made["num_key_value_heads"] < made["num_attention_heads"]
    assert (made["num_hidden_layers"], made["intermediate_size"]) == (2, 128)
    assert made["rms_norm_eps"] == LLAMA["rms_norm_eps"]
    assert made["use_cache"] is False


def test_equal_sizes_of_inner_configurations_stay_equal() -> None:
    made = reduced({"text_config": LLAMA, "vision_config": {"out_hidden_size": 4096}}, STEPS[0])

    assert made["vision_config"]["out_hidden_size"] == made["text_config"]["hidden_size"]


def test_ids_that_the_vocabulary_lost_find_a_place_where_nothing_is_drawn() -> None:
    made = tiny(image_token_id=31_998)

    ids = (made["eos_token_id"], made["pad_token_id"], made["image_token_id"])
    assert ids[0] == ids[1] != ids[2]
    assert all(DRAWN_TOKENS <= each < VOCABULARY for each in ids)


def test_a_list_by_layer_keeps_a_layer_of_each_kind() -> None:
    kinds = ["sliding_attention"] * 5 + ["full_attention"]
    made = tiny(num_hidden_layers=12, layer_types=kinds * 2)

    assert made["layer_types"] == ["sliding_attention", "full_attention"]
    assert made["num_hidden_layers"] == 2


def test_widths_and_heads_by_stage_keep_their_ratio() -> None:
    made = reduced({"hidden_sizes": [96, 192, 384, 768], "num_heads": [3, 6, 12, 24]}, STEPS[0])

    assert made == {"hidden_sizes": [8, 16, 32, 64], "num_heads": [1, 2, 4, 8]}


def test_what_one_stage_makes_the_next_takes() -> None:
    stages = {"in_channels": [32, 16, 24], "out_channels": [16, 24, 320]}

    assert reduced(stages, STEPS[0]) == stages


def test_what_the_next_stage_takes_is_reduced_as_what_one_makes() -> None:
    stages = {"stage_in_channels": [48, 128, 512], "stage_out_channels": [128, 512, 1024]}

    made = reduced(stages, STEPS[0])

    assert made == {"stage_in_channels": [48, 8, 32], "stage_out_channels": [8, 32, 64]}


def test_a_model_in_stages_starts_narrow_with_windows_that_divide_its_last_stage() -> None:
    swin = {"image_size": 224, "patch_size": 4, "embed_dim": 96, "window_size": 7}
    made = reduced({**swin, "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24]}, STEPS[0])

    assert made["embed_dim"] << 3 == 128
    assert (made["image_size"] // made["patch_size"] >> 3) % made["window_size"] == 0
    assert made["depths"] == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("given", "name", "size"),
    [
        ({"num_filters": 64, "upsampling_ratios": [8, 6, 5]}, "num_filters", 8),
        ({"encoder_hidden_size": 48, "downsampling_ratios": [2] * 5}, "encoder_hidden_size", 4),
        ({"patch_embeds_hidden_size": 96, "depths": [2] * 4}, "patch_embeds_hidden_size", 8),
        ({"hidden_size": 512, "upsample_groups": 512}, "upsample_groups", 64),
        ({"hidden_size": 512, "n_groups": 8}, "n_groups", 8),
        ({"post_conv_in_channels": 256}, "post_conv_in_channels", 64),
        ({"duration_predictor_channels": 256}, "duration_predictor_channels", 64),
        ({"upsample_initial_channel": 512}, "upsample_initial_channel", 64),
        ({"max_text_length": 500}, "max_text_length", 2),
        ({"sinkhorn_iterations": 100}, "sinkhorn_iterations", 2),
        ({"num_layers_per_stack": 16}, "num_layers_per_stack", 2),
    ],
)
def test_what_grows_from_stage_to_stage_and_loops_are_reduced(
    given: dict[str, Any], name: str, size: int
) -> None:
    assert reduced(given, STEPS[0])[name] == size


def test_layers_that_only_a_list_counts_are_reduced() -> None:
    made = reduced({"gnn_layers_types": ["self", "cross"] * 9}, STEPS[0])

    assert made["gnn_layers_types"] == ["self", "cross"]


def test_images_hold_whole_patches() -> None:
    made = reduced({"image_size": 336, "patch_size": 14}, STEPS[0])

    assert made == {"image_size": 56, "patch_size": 14}


def test_sections_of_a_rotation_share_half_a_head() -> None:
    made = tiny(rope_parameters={"mrope_section": [16, 24, 24]})

    assert sum(made["rope_parameters"]["mrope_section"]) == made["head_dim"] // 2


def test_experts_come_in_groups_and_fewer_are_chosen_than_there_are() -> None:
    made = tiny(n_routed_experts=256, num_experts_per_tok=8, n_group=8, topk_group=4)

    assert (made["n_routed_experts"], made["num_experts_per_tok"]) == (4, 2)
    assert (made["n_group"], made["topk_group"]) == (2, 1)


def test_an_override_reaches_inner_configurations() -> None:
    made = merged({"a": 1, "inner": {"b": 2, "c": 3}}, {"inner": {"c": 4}})

    assert made == {"a": 1, "inner": {"b": 2, "c": 4}}


def test_a_module_inside_a_model_is_made_and_called_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("huggingface_hub.constants", reason="made of the environment, once")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # as a census does, in a process of its own
    pytest.importorskip("transformers", reason="its modules are made")
    texts = pytest.importorskip("flashinfer_bench.decompose.census.model_texts")

    made = texts.model_text("transformers", "sam2_video")

    assert made.model == "Sam2VideoMemoryAttention"
    assert "Sam2VideoMemoryAttention(Sam2VideoConfig.from_dict(" in made.text
    assert "return_dict=True" not in made.text


def row(name: str, *kinds: str) -> ArchitectureRow:
    return ArchitectureRow(name, status="verified", kinds={each: (each, 1) for each in kinds})


def test_kinds_are_merged_over_architectures_and_answered_by_op_type() -> None:
    rows = [row("a", "linear", "rmsnorm"), row("b", "linear")]

    found = kernel_dictionary(rows, {"gemm_n4096": "gemm", "rmsnorm_h64": "rmsnorm", "x": "moe"})

    assert [(each.op_type, each.architectures, each.answered_by) for each in found] == [
        ("linear", 2, ("gemm_n4096",)),
        ("rmsnorm", 1, ("rmsnorm_h64",)),
    ]


def test_a_greedy_cover_takes_the_model_with_the_most_that_is_new() -> None:
    rows = [row("small", "a"), row("large", *"abcdefgh"), row("rare", "a", "i"), row("last", "j")]

    shares = {each.share: each for each in covering_sets(rows)}

    assert shares[0.90].architectures == ("large", "last")
    assert shares[0.90].whole_architectures == 3
    assert shares[0.99].architectures == ("large", "last", "rare")
    assert shares[0.99].kinds == 10


def test_a_census_without_kernels_covers_nothing() -> None:
    assert all(not each.architectures for each in covering_sets([ArchitectureRow("a")]))


def test_counts_say_what_became_of_each() -> None:
    rows = (row("a", "x"), replace(row("b", "x"), status="late"), ArchitectureRow("c"))

    report = CensusReport("transformers", "5", 9, rows, 0, (), ())

    assert report.counts == {"verified": 1, "decomposed": 0, "late": 1, "failed": 1}


@pytest.mark.parametrize(
    ("library", "remedy"),
    [("transformers", "flashinfer-bench[dev]"), ("torchvision", "torchvision")],
)
def test_a_library_that_is_not_installed_is_named_in_one_line(library: str, remedy: str) -> None:
    hidden = (
        "import importlib.util as u, sys\n"
        "find = u.find_spec\n"
        f"u.find_spec = lambda name, *rest: None if name == {library!r} else find(name, *rest)\n"
        "from flashinfer_bench.cli.main import cli\n"
        f"sys.exit(cli.main(['decompose', 'census', {library!r}]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ},
    )

    said = done.stderr.strip().splitlines()
    assert (done.returncode, len(said)) == (4, 1), done.stderr
    assert f"needs {library}, which is not installed: pip install '{remedy}'" in said[0]
