"""What a Python solution may and may not do while it is imported; no torch needed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from flashinfer_bench.compile import BuildError, Runnable, build, dependencies
from flashinfer_bench.data import BuildSpec, Signature, Solution, SourceFile
from flashinfer_bench.errors import ToolchainMissingError

if TYPE_CHECKING:
    from pathlib import Path

SIGNATURE = Signature.model_validate(
    {
        "name": "increment",
        "axes": {},
        "inputs": {"x": {"shape": None, "dtype": "int32"}},
        "outputs": {"y": {"shape": None, "dtype": "int32"}},
    }
)
RUN = "def run(x):\n    return x + 1\n"


def solution(
    *,
    entry: str = "main.py::run",
    name: str = "s",
    dependencies: tuple[str, ...] = (),
    **files: str,
) -> Solution:
    """A value-returning solution; `a__b` stands for the file a/b.py."""
    return Solution(
        name=name,
        definition="increment",
        author="tester",
        spec=BuildSpec.model_validate(
            {
                "language": "python",
                "target_hardware": ["cpu"],
                "entry_point": entry,
                "dependencies": list(dependencies),
                "destination_passing_style": False,
            }
        ),
        sources=[
            SourceFile(path=f"{path.replace('__', '/')}.py", content=content)
            for path, content in files.items()
        ],
    )


def with_init(base: Solution, content: str) -> Solution:
    init = SourceFile(path="__init__.py", content=content)
    return base.model_copy(update={"sources": [*base.sources, init]})


def built(what: Solution, cache: Path) -> Runnable:
    return build(what, SIGNATURE, cache_root=cache)


def test_files_of_a_solution_import_each_other_relatively(tmp_path: Path) -> None:
    deep = "from ..one import ONE\ndef run(x):\n    return x + ONE\n"

    runnable = built(
        solution(entry="kernels/deep.py::run", kernels__deep=deep, one="ONE = 1\n"), tmp_path
    )

    assert runnable(41) == 42


def test_a_package_file_runs_and_may_be_the_entry(tmp_path: Path) -> None:
    package = with_init(solution(entry="main.py::run", main=RUN), "from .main import run\n")
    package = package.model_copy(
        update={"spec": package.spec.model_copy(update={"entry_point": "__init__.py::run"})}
    )

    assert built(package, tmp_path)(41) == 42


def test_a_file_may_be_imported_when_the_function_is_called(tmp_path: Path) -> None:
    lazy = "def run(x):\n    from .one import ONE\n    return x + ONE\n"

    runnable = built(solution(main=lazy, one="ONE = 1\n"), tmp_path)

    assert runnable(41) == 42


def test_sys_path_stays_as_it_was(tmp_path: Path) -> None:
    before = list(sys.path)

    built(solution(main=RUN), tmp_path)

    assert sys.path == before


def test_a_file_named_like_a_module_of_the_library_does_not_replace_it(tmp_path: Path) -> None:
    import json

    runnable = built(solution(main=f"import json\n{RUN}", json="raise ImportError\n"), tmp_path)

    assert runnable.callable.__globals__["json"] is json


def test_a_file_imported_without_the_dot_is_an_error_that_says_how(tmp_path: Path) -> None:
    source = f"import fast_helpers\n{RUN}"

    with pytest.raises(BuildError, match=r"from \. import fast_helpers"):
        built(solution(main=source, fast_helpers=""), tmp_path)


def test_the_same_solution_is_imported_once_in_a_process(tmp_path: Path) -> None:
    twice = solution(main=f"import itertools\nCALLS = itertools.count()\n{RUN}")

    first, second = built(twice, tmp_path), built(twice, tmp_path)

    assert first.callable is second.callable


def test_modules_go_when_the_last_user_has_cleaned_up(tmp_path: Path) -> None:
    twice = solution(main=RUN)
    first, second = built(twice, tmp_path), built(twice, tmp_path)
    module = first.metadata.misc["module_name"]

    first.cleanup()
    kept = module in sys.modules
    second.cleanup()

    assert kept
    assert module not in sys.modules


def test_the_module_is_named_after_the_solution_and_its_content(tmp_path: Path) -> None:
    runnable = built(solution(main=RUN, name="my-kernel"), tmp_path)

    assert runnable.callable.__module__.startswith("fib_python_my_kernel_")
    assert runnable.callable.__module__.endswith(".main")


@pytest.mark.parametrize(
    ("top_level", "complaint"),
    [
        ("def run(x:\n", "SyntaxError"),
        ("import no_such_package_anywhere\n", "ModuleNotFoundError: No module named"),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
        ("raise GeneratorExit\n", "GeneratorExit"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def f(): f()\nf()\n", "RecursionError"),
        ("class E(Exception):\n    def __str__(self): 1 / 0\nraise E\n", "str() failed"),
    ],
)
def test_whatever_an_import_raises_is_a_build_error_with_the_traceback(
    top_level: str, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(BuildError) as failure:
        built(solution(main=top_level + RUN, name="unimportable"), tmp_path)

    assert complaint in failure.value.log
    assert [path for path in tmp_path.rglob("*.py*") if path.is_file()] == []
    assert [name for name in sys.modules if name.startswith("fib_python_unimportable_")] == []


def test_the_traceback_shows_the_solutions_frames_only(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as failure:
        built(
            solution(main=f"from . import inner\n{RUN}", inner="def f():\n    1 / 0\nf()\n"),
            tmp_path,
        )

    frames = [line.strip() for line in failure.value.log.splitlines() if line.startswith("  File")]

    assert frames == [
        'File "main.py", line 1, in <module>',
        'File "inner.py", line 3, in <module>',
        'File "inner.py", line 2, in f',
    ]


def test_ctrl_c_during_an_import_stays_ctrl_c(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        built(solution(main=f"raise KeyboardInterrupt\n{RUN}"), tmp_path)


def test_an_entry_that_is_no_function_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="'run' is of type int, not a function"):
        built(solution(main="run = 3\n"), tmp_path)


def test_a_dependency_that_is_not_installed_is_named_with_the_line_to_type(tmp_path: Path) -> None:
    needs = ("pytest>=1", "no-such-package>=2")

    with pytest.raises(ToolchainMissingError, match="pip install 'no-such-package>=2'"):
        built(solution(main=RUN, dependencies=needs), tmp_path)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("numpy>=999", r"needs numpy>=999, and \d[\w.]+ is installed: pip install 'numpy>=999'"),
        ("yaml>=999", r"needs yaml>=999, and \d[\w.]+ is installed"),
        ("no such package", "needs no such package, which is no requirement as pip reads them"),
    ],
)
def test_a_dependency_in_another_version_is_named_with_the_one_that_is_here(
    line: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(ToolchainMissingError, match=says):
        built(solution(main=RUN, dependencies=(line,)), tmp_path)


@pytest.mark.parametrize(
    "line", ["numpy>=1", "no-such-package; sys_platform == 'win32'", "json>=3"]
)
def test_a_dependency_that_this_machine_has_is_no_hindrance(line: str, tmp_path: Path) -> None:
    runnable = built(solution(main=RUN, dependencies=(line,)), tmp_path)

    assert runnable(1) == 2


def test_a_dependency_may_be_named_as_it_is_imported_or_as_it_is_installed(tmp_path: Path) -> None:
    runnable = built(solution(main=RUN, dependencies=("yaml", "PyYAML")), tmp_path)

    assert runnable(1) == 2


WITH_STATE = """
def prepare(weight): return weight * 10
def plan(state, lengths): return state + lengths
def run(state, x, weight, lengths): return state + x
"""


def stateful(source: str) -> tuple[Solution, Signature]:
    number = {"shape": None, "dtype": "int32"}
    inputs = {
        "x": number,
        "weight": number | {"role": "static"},
        "lengths": number | {"role": "metadata"},
    }
    signature = Signature.model_validate(SIGNATURE.to_dict() | {"inputs": inputs})
    plain = solution(main=source)
    spec = plain.spec.model_copy(update={"prepare": "prepare", "plan": "plan"})
    return plain.model_copy(update={"spec": spec}), signature


def test_prepare_and_plan_come_with_the_entry_which_takes_their_state_first(tmp_path: Path) -> None:
    what, signature = stateful(WITH_STATE)

    runnable = build(what, signature, cache_root=tmp_path)

    assert runnable.prepare is not None
    assert runnable.plan is not None
    assert runnable(runnable.plan(runnable.prepare(4), 1), 1, 4, 1) == 42


@pytest.mark.parametrize(
    ("declared", "instead", "complaint"),
    [
        ("def prepare(weight)", "def prepare()", r"called with \(weight\)"),
        ("def plan(state, lengths)", "def plan(lengths)", r"called with \(state, lengths\)"),
        ("def run(state, x,", "def run(x,", r"called with \(state, x, weight, lengths\)"),
        ("def plan(", "def planned(", "no 'plan'"),
    ],
)
def test_prepare_plan_and_entry_are_checked_before_they_run(
    declared: str, instead: str, complaint: str, tmp_path: Path
) -> None:
    what, signature = stateful(WITH_STATE.replace(declared, instead))

    with pytest.raises(BuildError, match=complaint):
        build(what, signature, cache_root=tmp_path)


def test_a_package_known_by_its_own_name_is_found_without_the_records_of_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_all() -> None:
        raise AssertionError("the records of all packages were read")

    monkeypatch.setattr(dependencies.importlib.metadata, "packages_distributions", read_all)

    named = solution(dependencies=("msgspec>=0.18", "pytest"), main=RUN)

    assert build(named, SIGNATURE, cache_root=tmp_path)(1) == 2
