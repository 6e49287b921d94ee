"""Prefill and decode of a language model are taken apart, verified, and the same in every run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flashinfer_bench.data import TraceSet
from flashinfer_bench.data.profile import Profile
from tests.commands import call
from tests.marks import mostly_full

from .language_models.models import write

pytest.importorskip("transformers", reason="its models are taken apart")


OWN_CACHES = Path(__file__).parent / "language_models" / "own_caches"
CACHES = ("dynamic", "static", "by_hand", "paged")


def _bytes(folder: Path) -> dict[str, bytes]:
    files = sorted(each for each in folder.rglob("*") if each.is_file())
    return {str(each.relative_to(folder)): each.read_bytes() for each in files}


@pytest.mark.full
def test_both_phases_are_verified_and_count_their_calls(tmp_path: Path) -> None:
    file = write("Llama", tmp_path)
    how = ("--phases", "prefill,decode", "--dtype", "bfloat16", "--emit", "fusions", "--json")

    done = call("decompose", file, "--output", tmp_path / "out", *how)

    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    phases = [document["decomposition"], *document["further_phases"]]
    assert [(each["model"], each["verified"]) for each in phases] == [
        ("llama_prefill", "pass"),
        ("llama_decode", "pass"),
    ]
    for phase, rows, lengths in (("prefill", 48, {"seq_len"}), ("decode", 2, {"kv_len"})):
        folder = tmp_path / "out" / f"llama_{phase}"
        dataset = TraceSet.from_path(folder / "dataset")
        tree = json.loads((folder / "decomposition_tree.json").read_text())
        assert set(tree["metadata"]["axes"]) == {"batch_size", *lengths}
        sizes = [each.workload.axes for each in dataset.workloads["rmsnorm_h64"]]
        assert sizes == [{"batch_size": rows}]
        profile = Profile.load(folder / f"dataset/profiles/PyTorch/llama_{phase}.json")
        counts = {use.kernel.definition: use.count for use in profile.kernels}  # type: ignore[union-attr]
        assert counts["rmsnorm_h64"] == 3
    (update,) = [name for name in dataset.definitions if name.startswith("cache_update")]
    assert "kv_len_and_1" in dataset.definitions[update].axes


@pytest.mark.parametrize(
    ("cache", "phase"),
    mostly_full(
        [(cache, phase) for cache in CACHES for phase in ("prefill", "decode")],
        ("by_hand", "decode"),  # its position has the numbers of two sums that it is in
    ),
)
def test_pieces_are_the_model_with_every_kind_of_cache(
    cache: str, phase: str, tmp_path: Path
) -> None:
    is_own = cache in ("by_hand", "paged")
    file = OWN_CACHES / f"{cache}.py" if is_own else write("Llama", tmp_path)
    how = ("--phases", phase, *(() if is_own else ("--cache", cache)), "--json")

    done = call("decompose", file, "--output", tmp_path / "out", *how)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["decomposition"]
    assert (found["verified"], found["coverage"]) == ("pass", 1.0)
    assert found["equality"] == "bit-equal"


def test_a_cache_is_made_for_experts_that_do_not_run_without_numbers(tmp_path: Path) -> None:
    file = write("Mixtral", tmp_path)  # in float32

    done = call("decompose", file, "--output", tmp_path / "out", "--phases", "decode", "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["decomposition"]
    assert (found["verified"], found["equality"]) == ("pass", "bit-equal")
    names = [each.partition("_")[0] for each in found["definitions"]]
    assert {"grouped", "cache", "topk"} <= set(names)


@pytest.mark.full
@pytest.mark.parametrize("window", [16, 32, 4096])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_a_cache_with_a_window_is_read_at_its_place(
    cache: str, window: int, tmp_path: Path
) -> None:
    file = write("Mistral", tmp_path, sliding_window=window)
    how = ("--phases", "prefill,decode", "--cache", cache, "--json")

    done = call("decompose", file, "--output", tmp_path / "out", *how)

    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    phases = [document["decomposition"], *document["further_phases"]]
    assert [each["equality"] for each in phases] == ["bit-equal", "bit-equal"]
    rotary = (tmp_path / "out" / "mistral_decode").rglob("mistral_rotary_embedding*.py")
    assert any("24" in each.read_text() for each in rotary)  # the place after the prompt, not 0


@pytest.mark.full
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_a_phase_is_the_same_in_every_run(cache: str, tmp_path: Path) -> None:
    file = write("Llama", tmp_path)
    how = ("--phases", "decode", "--cache", cache, "--no-verify")

    for folder in ("one", "two"):
        done = call("decompose", file, "--output", tmp_path / folder, *how)
        assert done.returncode == 0, done.stderr

    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two")


@pytest.mark.full
def test_a_model_of_transformers_is_read_in_evaluation_mode_and_it_is_said(tmp_path: Path) -> None:
    file = write("Llama", tmp_path, attention_dropout=0.5)
    file.write_text(file.read_text().replace(".eval()", ""))
    said = "read in evaluation mode, as models of transformers are served"

    served = call("decompose", file, "--output", tmp_path / "out", "--no-verify")
    trained = call("decompose", file, "--output", tmp_path / "out", "--no-verify", "--train")

    assert said in served.stdout
    assert said not in trained.stdout


def test_an_unknown_phase_is_refused(tmp_path: Path) -> None:
    file = write("Llama", tmp_path)

    done = call("decompose", file, "--output", tmp_path / "out", "--phases", "prefil")

    assert done.returncode == 2
    assert "no phase 'prefil': choose of prefill, decode" in done.stderr
