"""AMD's and Apple's GPUs: found, named, and refused with the reason wherever somebody asks for one."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from flashinfer_bench.bench.jobs import Target
from flashinfer_bench.bench.parent.pool import device_names
from flashinfer_bench.bench.plan import skip_reason
from flashinfer_bench.bench.tools import doctor
from flashinfer_bench.cli.main import cli
from flashinfer_bench.errors import UsageError
from flashinfer_bench.tensors.other_hardware import amd_gpus
from tests.flow.kernels import HONEST, solution

CPU = Target("cpu", "AMD EPYC 9654", 2)


def node(nodes: Path, number: int, target_version: int) -> None:
    """A node of the driver's topology as /sys shows it."""
    (nodes / str(number)).mkdir(parents=True)
    text = (
        f"cpu_cores_count 0\nsimd_count 304\ngfx_target_version {target_version}\nvendor_id 4098\n"
    )
    (nodes / str(number) / "properties").write_text(text)


def test_gpus_of_the_driver_are_named_and_its_processors_are_not(tmp_path: Path) -> None:
    for number, version in enumerate((0, 90402, 90010)):
        node(tmp_path, number, version)

    assert amd_gpus(tmp_path) == ["gfx942", "gfx90a"]


def test_a_machine_without_the_driver_has_none(tmp_path: Path) -> None:
    assert amd_gpus(tmp_path / "none") == []


def test_doctor_names_such_a_card_and_says_why_nothing_runs_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "amd_gpus", lambda: ["gfx942"])

    devices = doctor.examine(measures_noise=False).devices

    (card,) = (each for each in devices if each.name == "rocm")
    assert card.hardware == "gfx942"
    assert "not used" in (card.remark or "")


@pytest.mark.parametrize("device", ["rocm", "rocm:0", "hip:1", "mps", "metal"])
def test_a_device_of_these_is_refused_with_the_reason(device: str) -> None:
    with pytest.raises(UsageError, match=r"GPUs are .*not used"):
        device_names(device)


@pytest.mark.parametrize("hardware", [["rocm"], ["metal"], ["rocm", "mps"]])
def test_a_solution_for_these_alone_is_skipped_with_the_reason(hardware: list[str]) -> None:
    made = solution(HONEST)
    made = made.model_copy(
        update={"spec": made.spec.model_copy(update={"target_hardware": hardware})}
    )

    assert "not used" in (skip_reason(made, CPU, is_strict=False) or "")


@pytest.mark.parametrize("hardware", [["cpu"], ["rocm", "cpu"], ["AMD EPYC"]])
def test_a_solution_that_a_processor_runs_too_is_not_skipped(hardware: list[str]) -> None:
    made = solution(HONEST)
    made = made.model_copy(
        update={"spec": made.spec.model_copy(update={"target_hardware": hardware})}
    )

    assert skip_reason(made, CPU, is_strict=False) is None


@pytest.mark.parametrize("name", ["kernel.hip", "kernel.metal"])
def test_a_kernel_file_of_these_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("// a kernel\n")
    dataset = str(Path(__file__).parents[3] / "examples" / "dataset")

    said = CliRunner().invoke(
        cli, ["check", str(tmp_path / name), "--definition", "rmsnorm_h4096", "--local", dataset]
    )

    assert said.exit_code == 2
    assert "not used" in said.output
