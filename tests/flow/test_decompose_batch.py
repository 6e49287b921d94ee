"""Many files taken apart by the real processes: good ones, and ones that fail in every way."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.commands import call

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
HEAD = "import os\nimport torch\nfrom torch import nn\n\n\n"
TAIL = "\n\ndef get_inputs():\n    return [torch.rand(4, 8)]\n\n\ndef get_init_inputs():\n    return []\n"


def model(*lines: str) -> str:
    body = "".join(f"        {line}\n" for line in lines)
    return f"{HEAD}class Model(nn.Module):\n    def forward(self, x):\n{body}{TAIL}"


GOOD = {
    "1_Relu.py": model("return torch.relu(x)"),
    "2_Tanh.py": model("return torch.tanh(x)"),
    "10_Softmax.py": model("return torch.softmax(x, -1)"),
}
BAD = {
    "3_Syntax.py": "class Model(nn.Module)\n",
    "4_Raises.py": model("raise ValueError('never')"),
    "5_Missing.py": "import no_such_package\n" + model("return x.abs()"),
    "6_Dies.py": model("os._exit(3)"),
    "7_NoInputs.py": f"{HEAD}class Model(nn.Module):\n    pass\n",
}


def library(folder: Path, files: dict[str, str]) -> Path:
    level = folder / "problems" / "level1"
    level.mkdir(parents=True)
    for name, text in files.items():
        (level / name).write_text(text)
    (level / "helper.py").write_text("VALUE = 1\n")
    return level.parent


def batch(problems: Path, output: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    where = ("--dataset", problems, "--level", "1", "--output", output)
    done = call("decompose", "batch", "--json", *where, *arguments)
    return done.returncode, json.loads(done.stdout or "{}").get("batch", {}), done.stderr


def names(report: dict[str, Any]) -> list[str]:
    return [row["problem"].removeprefix("level1/") for row in report["rows"]]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, int, dict[str, Any], str]:
    folder = tmp_path_factory.mktemp("mixed")
    problems, output = library(folder, {**GOOD, **BAD}), folder / "out"
    return problems, output, *batch(problems, output, "--jobs", "2", "--timeout", "60")


def test_every_file_is_reported_in_natural_order_and_helpers_are_not(mixed: Any) -> None:
    *_, report, _ = mixed

    assert names(report) == [
        *("1_Relu", "2_Tanh", "3_Syntax", "4_Raises", "5_Missing", "6_Dies", "7_NoInputs"),
        "10_Softmax",
    ]


def test_good_files_are_taken_apart_and_verified_whatever_the_others_do(mixed: Any) -> None:
    _, output, code, report, _ = mixed
    good = [row for row in report["rows"] if not row["fault"]]

    assert [Path(row["file"]).name for row in good] == list(GOOD)
    assert {(row["classified"], row["kernels"], row["verified"]) for row in good} == {
        ("kernel", 1, "pass")
    }
    assert all(row["coverage"] == 1 and row["cpu_seconds"] < 5 for row in good)
    assert all((output / row["problem"] / "decomposition_tree.json").is_file() for row in good)
    assert code == 1
    assert (report["totals"]["files"], report["totals"]["failed"]) == (8, 5)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("3_Syntax", "3_Syntax.py:1: expected ':'"),
        ("4_Raises", "ValueError"),
        ("5_Missing", "pip install no_such_package"),
        ("6_Dies", "exit code 3"),
        ("7_NoInputs", "get_inputs()"),
    ],
)
def test_a_failing_file_says_why_in_one_sentence(mixed: Any, name: str, said: str) -> None:
    *_, report, err = mixed
    (row,) = [row for row in report["rows"] if row["problem"] == f"level1/{name}"]

    assert said in row["fault"]
    assert row["classified"] == "failed"
    assert not row["is_ours"]
    assert f"level1/{name}: FAILED: " in err


def test_resume_does_again_what_failed_or_changed_and_nothing_else(mixed: Any) -> None:
    problems, output, *_ = mixed
    (problems / "level1" / "2_Tanh.py").write_text(model("return torch.tanh(x) + 1"))
    (problems / "level1" / "3_Syntax.py").write_text(model("return torch.exp(x)"))

    code, report, err = batch(problems, output, "--resume", "--start", "0", "--count", "3")

    assert code == 0, err
    assert report["resumed"] == 1
    assert "1_Relu" not in err
    assert [row["operations"] for row in report["rows"]] == [1, 2, 1]


@pytest.mark.full
def test_start_and_count_are_places_in_the_list(tmp_path: Path) -> None:
    problems = library(tmp_path, GOOD)

    code, report, _ = batch(
        problems, tmp_path / "out", "--start", "1", "--count", "1", "--no-verify"
    )

    assert (code, names(report)) == (0, ["2_Tanh"])
    assert report["rows"][0]["verified"] == "skipped"


@pytest.mark.full
def test_equal_kernels_of_two_models_are_one_in_the_merged_dataset(tmp_path: Path) -> None:
    twice = {
        "1_A.py": model("return torch.relu(x)"),
        "2_B.py": model("return torch.relu(x) @ x.T"),
    }
    problems = library(tmp_path, twice)

    code, report, err = batch(problems, tmp_path / "out", "--merge", str(tmp_path / "kernels"))

    assert code == 0, err
    assert (report["merged"]["models"], report["merged"]["added"], report["merged"]["shared"]) == (
        2,
        2,
        1,
    )
    assert (tmp_path / "kernels" / "kernel_dictionary.json").is_file()


def test_an_interrupted_batch_keeps_what_is_done_and_leaves_no_process(tmp_path: Path) -> None:
    slow = model("import time; time.sleep(60)", "return x")
    problems, output = (
        library(tmp_path, {"1_Relu.py": GOOD["1_Relu.py"], "2_Slow.py": slow}),
        tmp_path / "out",
    )
    command = [sys.executable, "-m", "flashinfer_bench", "decompose", "batch", "--jobs", "1"]
    command += ["--dataset", str(problems), "--level", "1", "--output", str(output)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr
    assert "1_Relu" in process.stderr.readline()
    time.sleep(1)

    os.kill(process.pid, signal.SIGINT)
    said = process.communicate(timeout=30)[1]

    assert process.returncode == 130
    assert "interrupted" in said
    assert "1_Relu" in (output / "batch.jsonl").read_text()
    code, report, err = batch(problems, output, "--resume", "--count", "1")
    assert (code, report["resumed"]) == (0, 1), err
    assert not running(str(tmp_path))


@pytest.mark.full
def test_ctrl_c_while_torch_is_imported_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(GOOD["1_Relu.py"])
    (tmp_path / "logs").mkdir()
    command = [sys.executable, "-m", "flashinfer_bench", "decompose", str(file)]
    process = subprocess.Popen(
        [*command, "--output", str(tmp_path / "out")],
        env={**os.environ, "TMPDIR": str(tmp_path / "logs")},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr
    assert "a process of its own" in process.stderr.readline()
    time.sleep(0.6)

    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it
    said = process.communicate(timeout=30)[1]

    assert (process.returncode, said) == (130, "error: interrupted\n")
    assert not list((tmp_path / "logs").glob("*.log"))
    assert not (tmp_path / "out").exists()


def running(text: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in command and "pytest" not in command:
            found.append(command)
    return found


def test_a_hanging_file_is_ended_and_said_to_be_late(tmp_path: Path) -> None:
    problems = library(
        tmp_path, {"1_Slow.py": model("while True: pass"), "2_Tanh.py": GOOD["2_Tanh.py"]}
    )

    code, report, _ = batch(problems, tmp_path / "out", "--timeout", "6", "--jobs", "2")

    assert code == 1
    assert "took more than 6 s" in report["rows"][0]["fault"]
    assert report["rows"][1]["verified"] == "pass"


@pytest.mark.full
def test_the_script_takes_the_same_options(tmp_path: Path) -> None:
    problems = library(tmp_path, {"1_Relu.py": GOOD["1_Relu.py"]})
    command = [
        sys.executable,
        str(ROOT / "scripts" / "batch_decompose.py"),
        "--dataset",
        str(problems),
    ]
    command += ["--level", "1", "--output", str(tmp_path / "out"), "--no-verify"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    assert "1 file taken apart into" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dataset", "nowhere"], "kernelbench fetch nowhere"),
        (["--start", "99"], "nothing to take apart: level 1 of"),
    ],
)
def test_what_cannot_be_is_one_error(tmp_path: Path, arguments: list[str], said: str) -> None:
    code, report, err = batch(library(tmp_path, GOOD), tmp_path / "out", *arguments)

    assert (code, report) == (2, {})
    assert said in err


@pytest.mark.full
def test_a_long_name_of_the_temporary_folder_is_no_obstacle(tmp_path: Path) -> None:
    file, folder = tmp_path / "model.py", tmp_path / ("long" * 25)
    file.write_text(GOOD["1_Relu.py"])
    folder.mkdir()

    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "flashinfer_bench",
            "decompose",
            str(file),
            "--output",
            str(tmp_path / "out"),
        ],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
