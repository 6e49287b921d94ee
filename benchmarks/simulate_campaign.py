"""What a campaign costs beside the time of its cards: files, planning, handing out, recording, resuming.

Run: python benchmarks/simulate_campaign.py [--solutions 100000]

The dataset lies on disk, and the package's own code loads it, plans it, hands its jobs to simulated cards, appends
traces and resumes. Only the cards are simulated: a job takes a lognormal time, and two cards in a hundred fail.
Figures of a step are its seconds, those of the processor, and the memory of the process after it. "Feeds" says how
many cards one driver could keep busy if it did nothing else.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import resource
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generate_traces import REFERENCE, trace, write

from flashinfer_bench.bench.config import BenchmarkConfig
from flashinfer_bench.bench.jobs import Job, Target
from flashinfer_bench.bench.parent.work import Handed, OpenBatches
from flashinfer_bench.bench.plan import Plan, plan
from flashinfer_bench.bench.resuming import Resume
from flashinfer_bench.data import Trace, TraceSet

if TYPE_CHECKING:
    from collections.abc import Iterator

CARD = Target("cuda", "NVIDIA H200", threads=8)
CONFIG = BenchmarkConfig(workload_class="all")
APPENDED = 2000
FAILING = 0.02
OP_TYPES = 8


@dataclass(frozen=True, slots=True)
class Size:
    """How large the campaign is."""

    solutions: int
    definitions: int
    workloads: int
    """For each definition."""
    devices: int
    job_s: float


@contextmanager
def step(name: str, per: int = 0, what: str = "") -> Iterator[None]:
    """Print what a step took."""
    began_s, had_s = time.perf_counter(), time.process_time()
    yield
    took_s, own_s = time.perf_counter() - began_s, time.process_time() - had_s
    mb = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    each = f", {own_s / per * 1e6:,.1f} us a {what}" if per else ""
    print(
        f"{name}: {took_s:,.1f} s, of the processor {own_s:,.1f} s{each}; {mb:,.0f} MB", flush=True
    )


def write_dataset(root: Path, size: Size) -> None:
    """Write definitions, workloads and solutions, a file each."""
    for index in range(size.definitions):
        name, op_type = f"op_{index:04}", f"op{index % OP_TYPES}"
        spec = {"shape": ["rows", "hidden"], "dtype": "bfloat16"}
        axes = {"rows": {"type": "var"}, "hidden": {"type": "const", "value": 4096}}
        definition: dict[str, Any] = {"name": name, "op_type": op_type, "axes": axes}
        definition |= {"inputs": {"x": spec}, "outputs": {"y": spec}, "reference": REFERENCE}
        write(root / "definitions" / op_type / f"{name}.json", [definition])
        workloads = [
            {"axes": {"rows": 1 + k}, "inputs": {"x": {"type": "random"}}, "uuid": f"{name}-{k}"}
            for k in range(size.workloads)
        ]
        lines = [
            {"definition": name, "workload": each, "solution": None, "evaluation": None}
            for each in workloads
        ]
        write(root / "workloads" / op_type / f"{name}.jsonl", lines)
    for index in range(size.solutions):
        of = index % size.definitions
        definition_name, op_type, name = f"op_{of:04}", f"op{of % OP_TYPES}", f"s{index:07}"
        solution = {
            "name": name,
            "definition": definition_name,
            "author": f"author{index % 20:02}",
            "spec": {"language": "triton", "target_hardware": ["cuda"], "entry_point": "m.py::run"},
            "sources": [{"path": "m.py", "content": f"{REFERENCE}# {index}\n"}],
        }
        folder = root / "solutions" / solution["author"] / op_type / definition_name
        write(folder / f"{name}.json", [solution])


def simulate_cards(planned: Plan, size: Size) -> tuple[float, float, int]:
    """Hand every job to a simulated card; give busy seconds, seconds until the end, and jobs done twice."""
    draw = random.Random(0)
    work = OpenBatches(planned.batches)
    free: list[tuple[float, int, Handed | None]] = [
        (0.0, card, None) for card in range(size.devices)
    ]
    waiting: list[int] = []
    fails_at = {card: draw.uniform(0, 1) for card in range(int(size.devices * FAILING))}
    busy_s = ends_s = 0.0
    done: set[int] = set()
    twice = 0
    whole_s = len(planned.jobs) * size.job_s / size.devices
    while free:
        now_s, card, handed = heapq.heappop(free)
        if handed is not None:
            job = handed.left[0]
            if card in fails_at and now_s > fails_at[card] * whole_s:
                work.give_back(handed)
                free += [(now_s, each, None) for each in waiting]
                heapq.heapify(free)
                waiting.clear()
                continue
            handed.left.popleft()
            twice += id(job) in done
            done.add(id(job))
            ends_s = now_s
            if not handed.left:
                work.finish(handed)
                handed = None
        handed = handed or work.take(CARD)
        if handed is None:
            waiting.append(card)
            continue
        took_s = draw.lognormvariate(0, 0.5) * size.job_s
        busy_s += took_s
        heapq.heappush(free, (now_s + took_s, card, handed))
    assert len(done) == len(planned.jobs)
    return busy_s, ends_s, twice


def append_some(trace_set: TraceSet, jobs: tuple[Job, ...], size: Size) -> None:
    """Record traces one by one, each on disk before the next, as a run does."""
    made = [Trace.model_validate(trace_of(job)) for job in jobs[:APPENDED]]
    began_s = time.perf_counter()
    for each, job in zip(made, jobs, strict=False):
        trace_set.append(each, author=job.solution.author)
    each_s = (time.perf_counter() - began_s) / len(made)
    print(
        f"append: {each_s * 1e6:,.0f} us a trace; feeds {size.job_s / each_s:,.0f} cards",
        flush=True,
    )


def trace_of(job: Job) -> dict[str, Any]:
    """Give the trace of a job that passed."""
    made = trace(job.definition.name, job.solution.name, 0, random.Random(0))
    made["workload"] = json.loads(job.workload.model_dump_json())
    made["evaluation"]["provenance"] |= {
        "solution_hash": job.solution.hash(),
        "definition_hash": job.definition.hash(),
        "config_hash": job.config_hash,
    }
    return made


def write_traces(root: Path, planned: Plan) -> int:
    """Write what is left of the traces straight into the files, a solution's from one; give the bytes of all."""
    first: Job | None = None
    text = ""
    for job in planned.jobs[APPENDED:]:
        if first is None or job.solution is not first.solution:
            first = job
            path = root / "traces" / job.solution.author / job.definition.op_type
            path.mkdir(parents=True, exist_ok=True)
            path /= f"{job.definition.name}.jsonl"
            text = json.dumps(trace_of(job), separators=(",", ":")) + "\n"
            rows = f'"rows":{job.workload.axes["rows"]}'
        line = text.replace(f'"{first.workload.uuid}"', f'"{job.workload.uuid}"')
        with path.open("a", encoding="utf-8") as file:
            file.write(line.replace(rows, f'"rows":{job.workload.axes["rows"]}'))
    return sum(path.stat().st_size for path in (root / "traces").rglob("*.jsonl"))


def main() -> None:
    """Play the campaign."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--solutions", type=int, default=10_000)
    parser.add_argument("--definitions", type=int, default=1000)
    parser.add_argument("--workloads", type=int, default=10, help="for each definition")
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--job-s", type=float, default=0.7)
    size = Size(**vars(parser.parse_args()))
    count = size.solutions * size.workloads
    hours = count * size.job_s / size.devices / 3600
    print(f"{count:,} jobs on {size.devices} cards: {hours:,.1f} h at {size.job_s} s a job")
    with tempfile.TemporaryDirectory() as folder:
        play(Path(folder), size, count)


def play(root: Path, size: Size, count: int) -> None:
    """Do it all, step by step."""
    with step("write the dataset", size.solutions, "solution"):
        write_dataset(root, size)
    with step("load it", size.solutions, "solution"):
        trace_set = TraceSet.from_path(root)
    with step("plan", count, "job"):
        planned = plan(trace_set, CONFIG, CARD)
    with step("hand out", count, "job"):
        busy_s, ends_s, twice = simulate_cards(planned, size)
    print(
        f"cards: busy {busy_s / ends_s / size.devices:.1%} of the time, {twice} jobs recorded twice"
    )
    append_some(trace_set, planned.jobs, size)
    with step("write the other traces", count, "trace"):
        written = write_traces(root, planned)
    print(f"traces: {written / 1e6:,.0f} MB")
    del planned
    with step("load with traces", count, "trace"):
        trace_set = TraceSet.from_path(root)
    with step("resume", count, "trace"):
        resumed = plan(trace_set, CONFIG, CARD, resume=Resume())
    assert (len(resumed.jobs), resumed.done_count) == (0, count)


if __name__ == "__main__":
    main()
