from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flashinfer_bench.bench.examining.profile_values import (
    KeptReport,
    ProfiledKernel,
    SolutionProfile,
)
from flashinfer_bench.report.generation import generation_facts, newest_generation
from flashinfer_bench.report.page.content import solution_page
from flashinfer_bench.report.page.site import pages

from .test_page_content import PRESENT, SOLUTION, content, job

if TYPE_CHECKING:
    from flashinfer_bench.report.page.content import RecordedJob

PARENT = SOLUTION.model_copy(update={"name": "parent"})
WRITTEN = {
    "model": "a-model",
    "endpoint": "example.org/v1",
    "parent": PRESENT,
    "prompt_hash": "f" * 64,
    "round": 3,
    "prompt_tokens": 12_000,
    "completion_tokens": 3_400,
    "device_s": 8.5,
    "cost_usd": 0.051,
}


def written(code: str = PRESENT, **changes: Any) -> RecordedJob:
    found = job()
    provenance = {
        "trace_id": "t",
        "solution_hash": code,
        "config_hash": "c",
        "seed": "0" * 16,
        "seed_given": False,
        "run": {"id": "r"},
        "sandbox": "process",
        "generated": WRITTEN | changes,
    }
    document = found.evaluation.to_dict() | {"provenance": provenance}
    return type(found)(found.row, type(found.evaluation).model_validate(document))


def test_the_first_that_knows_says_how_this_code_was_written() -> None:
    jobs = [job(), written("v1-older-code", round=1), written(), written(round=2)]

    found = newest_generation((each.evaluation for each in jobs), PRESENT, [PARENT])

    assert found is not None
    assert (found["round"], found["parent_solution"]) == (3, "parent")
    assert generation_facts(found) == {
        "written by": "a-model at example.org/v1, round 3",
        "made from": "parent",
        "tokens": "12,000 sent, 3,400 received",
        "cost": "$0.051",
    }


def test_what_is_not_known_is_left_out() -> None:
    jobs = [written(cost_usd=None, parent=None)]

    found = newest_generation((each.evaluation for each in jobs), PRESENT, [])

    assert generation_facts(found).keys() == {"written by", "tokens"}
    assert newest_generation([job().evaluation], PRESENT, []) is None
    assert generation_facts(None) == {}


def test_the_page_of_a_solution_says_it_and_shows_the_profiles_of_its_code() -> None:
    kernel = ProfiledKernel(name="row_norm", registers=40, spill_bytes=0, tool="ptxas")
    profile = SolutionProfile(
        definition="d1",
        solution="a",
        solution_hash=PRESENT,
        workload="w",
        axes={"n": 512},
        device="cuda:0",
        hardware="a card",
        tool="ptxas",
        kernels=(kernel,),
        reports=(KeptReport("log", "/home/me/report.log", "0" * 64, 12),),
    )
    kept = {PRESENT: [profile], "v1-older-code": [profile, profile]}
    made = content(written())

    files = dict(pages(type(made)(**{**vars(made), "kernel_profiles": kept})))
    bare = dict(pages(content(job())))

    page = files[solution_page("a")]
    assert "<dt>cost</dt><dd>$0.051</dd>" in page
    assert page.count("a [n=512] on a card, by the compiler (ptxas)") == 1
    assert "<td>40</td>" in page
    assert 'href="#profiles"' in page
    assert "/home/me" not in page
    assert 'id="profiles"' not in bare[solution_page("a")]
