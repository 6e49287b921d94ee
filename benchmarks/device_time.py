"""What a job costs beside its timing, and where each millisecond of a `check` goes.

    python benchmarks/device_time.py jobs  [--device auto] [--most 100] [--clock CLOCK]
    python benchmarks/device_time.py check [--device auto] [--rounds 3]
    python benchmarks/device_time.py cards [--most 100]

`jobs` runs the bundled dataset's jobs for the device: once with quick settings so that caches are filled, then audited,
then `--no-audit`, from one process that stays. It prints seconds a job, and the share of them in which the device
computes for a timed sample. `cards` fills caches on all cards, and then runs the jobs audited on all and on one. It
prints how many times as many jobs a minute all do, and what a card's time went to. `check` runs the bundled Triton
RMSNorm on five workloads with the quick settings of that command: as a command, the second time, and from a process
that stays. It prints where the milliseconds go.

Nothing of the package is changed: its functions are wrapped in the parent and, before it forks, in the fork server. So
the judge keeps an account of its own, which it writes to its log, where the parent of this benchmark reads it. A line
is the time of its functions less that of the other lines' functions that they call.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashinfer_bench.bench import Benchmark
    from flashinfer_bench.bench.plan import Plan

HERE = Path(__file__).resolve()
DATASET = HERE.parents[1] / "examples/dataset"
KERNEL = DATASET / "solutions/triton/rmsnorm/rmsnorm_h4096/rmsnorm_h4096_triton"
MARK = "what the judge did: "
WORKLOADS = 5
BARS_S = {"a job, audited": 0.7, "the command": 5.0, "a check that stays": 1.5}
QUICK = {"warmup_runs": 3, "iterations": 20, "num_trials": 1}
FILLING = {"warmup_runs": 1, "iterations": 2, "num_trials": 1}
Account = dict[str, tuple[float, int]]
"""Milliseconds and calls, by what was done."""

_BENCH = "flashinfer_bench.bench"
PARENT: dict[str, tuple[str, str]] = {
    "dataset loaded": ("flashinfer_bench.data.trace_set", "TraceSet.from_paths"),
    "planned": ("flashinfer_bench.bench.benchmark", "plan_for_all"),
    "builds waited for": (f"{_BENCH}.parent.builds_ahead", "BuildsAhead.wait_for"),
    "fork server started (Python, torch)": (f"{_BENCH}.parent.launcher", "Launcher.start"),
    "judge started (fork, context, clock)": (f"{_BENCH}.parent.session", "Session.open"),
    "device's ceilings": (f"{_BENCH}.parent.session", "Session._have_ceilings"),
    "rehearsal, beside its process and judge": (f"{_BENCH}.parent.session", "Session._rehearse"),
    "Triton asked whether it compiles": (f"{_BENCH}.parent.session", "Session._refused_by_triton"),
    "solution's and reference's processes started": (
        f"{_BENCH}.parent.session",
        "Session._start_process",
    ),
    "job sent, decision received": (f"{_BENCH}.parent.session", "Session._judged"),
    "processes ended": (f"{_BENCH}.parent.candidates", "Candidates.end"),
    "pool closed": (f"{_BENCH}.parent.pool", "LocalPool.close"),
    "trace made": (f"{_BENCH}.benchmark", "_recorded"),
}
_JUDGE = f"{_BENCH}.judge"
JUDGE: dict[str, tuple[str, str]] = {
    "judge: everything else": (f"{_JUDGE}.service", "_Bench._judge"),
    "judge: oracle of the workload": (f"{_JUDGE}.service", "_Bench._oracle_for"),
    "judge: reference agrees with itself": (
        f"{_JUDGE}.checking",
        "Checker.require_sound_reference",
    ),
    "judge: workload opened in each process": (f"{_JUDGE}.evaluation", "JobEvaluation._open"),
    "judge: trial opened": (f"{_JUDGE}.participant", "Participant.open_trial"),
    "judge: first checked call": (f"{_JUDGE}.checking", "Checker.check_first"),
    "judge: checked call repeated": (f"{_JUDGE}.checking", "Checker.check_repeats"),
    "judge: warm-up": (f"{_JUDGE}.evaluation", "JobEvaluation._warm_up"),
    "judge: calls per sample chosen": (
        f"{_JUDGE}.evaluation",
        "JobEvaluation._choose_calls_per_sample",
    ),
    "judge: clocks settled": (f"{_JUDGE}.evaluation", "JobEvaluation._settle_clocks"),
    "judge: untimed calls of blocks": (f"{_JUDGE}.evaluation", "JobEvaluation._open_block"),
    "judge: timed samples": (f"{_JUDGE}.evaluation", "JobEvaluation._time_block"),
    "judge: control and others beside blocks": (f"{_JUDGE}.monitor", "Monitor.add_block"),
    "judge: checks of samples": (f"{_JUDGE}.checking", "Checker.check"),
    "judge: batches": (f"{_JUDGE}.evaluation", "JobEvaluation._run_batches"),
    "judge: inputs and outputs seen again": (f"{_JUDGE}.checking", "Checker.close"),
    "judge: edge-case inputs": (f"{_JUDGE}.checking", "Checker.check_unusual"),
    "judge: is the task weak": (f"{_JUDGE}.checking", "Checker.task_notes"),
    "judge: roofline": (f"{_JUDGE}.workload_roofline", "WorkloadRoofline.share"),
}


class Spans:
    """Times functions, each less those it calls; a stack for each thread, only of threads that are counted."""

    def __init__(self, counts: Callable[[str], bool] = lambda _: True) -> None:
        self._own_ns: defaultdict[str, int] = defaultdict(int)
        self._calls: defaultdict[str, int] = defaultdict(int)
        self._stacks = threading.local()
        self._counts = counts

    def wrap(self, label: str, module: str, path: str) -> None:
        """Have a function or method timed from now on."""
        holder: Any = importlib.import_module(module)
        *outer, name = path.split(".")
        for each in outer:
            holder = getattr(holder, each)
        raw = vars(holder)[name]
        function = raw.__func__ if isinstance(raw, classmethod) else raw
        timed = self._timed(label, function)
        setattr(holder, name, classmethod(timed) if isinstance(raw, classmethod) else timed)

    def _timed(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if not self._counts(threading.current_thread().name):
                return function(*args, **kwargs)
            stack = self._stacks.__dict__.setdefault("inner_ns", [])
            stack.append(0)
            began_ns = time.perf_counter_ns()
            try:
                return function(*args, **kwargs)
            finally:
                took_ns = time.perf_counter_ns() - began_ns
                self._own_ns[label] += took_ns - stack.pop()
                self._calls[label] += 1
                if stack:
                    stack[-1] += took_ns

        return timed

    def add(self, account: Account, *, of: str) -> None:
        """Take over what another process did while this one waited in a function."""
        for label, (ms, calls) in account.items():
            self._own_ns[label] += int(ms * 1e6)
            self._own_ns[of] -= int(ms * 1e6)
            self._calls[label] += calls

    def take(self) -> Account:
        """Give the account, and begin a new one."""
        account = {name: (ns / 1e6, self._calls[name]) for name, ns in self._own_ns.items()}
        self._own_ns.clear()
        self._calls.clear()
        return account


# ------------------------------------------------------------------ in the fork server and the judge


def serve_probed() -> None:
    """Be a fork server whose judges keep an account."""
    from flashinfer_bench.bench.worker import server, startup

    class Importing:
        """Wraps what a judge does, once it is imported."""

        @staticmethod
        def import_module(name: str) -> Any:
            module = importlib.import_module(name)
            if name.endswith("judge.service"):
                probe_judge(module)
            return module

    setattr(startup, "importlib", Importing)  # noqa: B010 - a module's own name
    server.serve(int(sys.argv[1]), Path(sys.argv[2]))


def probe_judge(service: Any) -> None:
    """Have each job's account written to the log."""
    spans = Spans()
    for label, (module, path) in JUDGE.items():
        spans.wrap(label, module, path)
    judge = service._Bench._judge

    def judged(*args: Any) -> Any:
        answer = judge(*args)
        sys.stderr.write(f"{MARK}{json.dumps(spans.take())}\n")
        sys.stderr.flush()
        return answer

    service._Bench._judge = judged


# ------------------------------------------------------------------ in the parent


def probe_parent() -> Spans:
    """Keep an account of what the threads of devices and the main thread do."""
    from flashinfer_bench.bench.parent import launcher, session

    spans = Spans(lambda thread: thread != "bench-builds")
    for label, (module, path) in PARENT.items():
        spans.wrap(label, module, path)
    serving = (
        f"import sys; sys.path.insert(0, {str(HERE.parent)!r}); import device_time; "
        "del sys.path[0]; device_time.serve_probed()"
    )
    python = [sys.executable, "-P", "-c", serving]
    launcher._server_command = lambda descriptor, folder: [*python, str(descriptor), str(folder)]
    judged = session.Session._judged

    def with_account(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = judged(self, *args, **kwargs)
        if self._judge is not None:
            self._judge.log.drain()
            for line in self._judge.log.take().splitlines():
                if line.startswith(MARK):
                    spans.add(json.loads(line[len(MARK) :]), of="job sent, decision received")
        return answer

    session.Session._judged = with_account
    return spans


def timed_ms(outcome: Any) -> float:
    """Say how long the device computed for the timed samples of a job."""
    return sum(
        call_ns * each.calls_per_sample / 1e6
        for each in getattr(outcome, "samples", ())
        for block in each.blocks_ns
        for call_ns in block
    )


def ran(benchmark: Benchmark, planned: Plan) -> tuple[float, float, int]:
    """Run a plan; give its seconds, the milliseconds in which samples were timed, and the jobs that passed."""
    began_s = time.perf_counter()
    ended = []
    until: dict[str, tuple[int, float]] = {}
    for each in benchmark.run(planned, dump_traces=False):
        ended.append(each.outcome)
        count, _ = until.get(each.device, (0, 0.0))
        until[each.device] = count + 1, time.perf_counter() - began_s
    took_s = time.perf_counter() - began_s
    if len(until) > 1:
        shares = (
            f"{name}: {count} jobs until {at_s:.1f} s"
            for name, (count, at_s) in sorted(until.items())
        )
        print("; ".join(shares), flush=True)
    passed = [each for each in ended if getattr(each, "samples", ())]
    if len(passed) < len(ended):
        others = Counter(type(each).__name__ for each in ended if not getattr(each, "samples", ()))
        why = ", ".join(f"{count} {name}" for name, count in sorted(others.items()))
        print(f"{len(ended) - len(passed)} of {len(ended)} jobs did not pass: {why}", flush=True)
    return took_s, sum(map(timed_ms, passed)), len(ended)


def printed(title: str, account: Account, whole_ms: float, *, per: int = 1) -> None:
    """Print an account as a table; what no line covers is its last one."""
    print(f"\n{title}: {whole_ms / per:,.0f} ms")
    rows = sorted(account.items(), key=lambda row: -row[1][0])
    for label, (ms, calls) in rows:
        print(f"  {ms / per:9.1f} ms {ms / whole_ms:6.1%}  {calls / per:7.1f} x  {label}")
    rest_ms = whole_ms - sum(ms for ms, _ in account.values())
    print(
        f"  {rest_ms / per:9.1f} ms {rest_ms / whole_ms:6.1%}             everything else",
        flush=True,
    )


def against_bar(name: str, figure_s: float, device: str) -> str:
    """Write a figure with its bar, which holds on a card."""
    return f"{name}: {figure_s:.2f} s" + (f" (bar {BARS_S[name]} s)" if device != "cpu" else "")


# ------------------------------------------------------------------ what is measured


def jobs(options: argparse.Namespace) -> None:
    """Run the bundled dataset's jobs, audited and not."""
    from flashinfer_bench.bench import Benchmark, BenchmarkConfig
    from flashinfer_bench.data import TraceSet

    spans = probe_parent()
    trace_set = TraceSet.from_path(options.dataset)
    clock = {} if options.clock is None else {"clock": options.clock}
    passes = {
        "caches filled": FILLING,
        "audited": clock,
        "not audited": clock | {"audit": False},
    }
    for name, settings in passes.items():
        config = BenchmarkConfig(**settings)
        with Benchmark(trace_set, config, device=options.device) as benchmark:
            device = benchmark.devices[0]
            chosen = some_jobs(benchmark, options.most)
            spans.take()
            took_s, busy_ms, count = ran(benchmark, chosen)
            account = spans.take()
        if name == "caches filled":
            print(f"{device}: {count} jobs; caches filled in {took_s:.1f} s")
            continue
        figure = against_bar("a job, audited", took_s / count, device)
        each = figure if name == "audited" else f"a job, {name}: {took_s / count:.2f} s"
        print(
            f"{each}; the device computes for a timed sample {busy_ms / took_s / 10:.1f}% of the time"
        )
        printed(f"a job, {name}", account, took_s * 1e3, per=count)


def some_jobs(benchmark: Benchmark, most: int) -> Plan:
    """Plan every so manieth solution, with all its workloads: a process serves them all."""
    from flashinfer_bench.bench.plan import Plan

    planned = benchmark.plan()
    batches = planned.batches
    every = max(1, -(-len(planned.jobs) // most))
    return Plan(tuple(job for batch in batches[::every] for job in batch))


def cards(options: argparse.Namespace) -> None:
    """Run the bundled dataset's jobs on one card and on all, and print how many jobs a minute each does."""
    from flashinfer_bench.bench import Benchmark, BenchmarkConfig
    from flashinfer_bench.bench.parent.pool import device_names
    from flashinfer_bench.data import TraceSet

    names = device_names("auto")
    if len(names) < 2:  # one has nothing to be compared with
        sys.exit(f"cards: several are needed, and this machine has {', '.join(names)}")
    spans = probe_parent()
    trace_set = TraceSet.from_path(options.dataset)
    minutely: list[float] = []
    for count, settings in ((len(names), FILLING), (len(names), {}), (1, {})):
        config = BenchmarkConfig(**settings)
        with Benchmark(trace_set, config, device=",".join(names[:count])) as benchmark:
            chosen = some_jobs(benchmark, options.most)
            spans.take()
            took_s, _, jobs = ran(benchmark, chosen)
            account = spans.take()
        if settings:
            continue
        minutely.append(60 * jobs / took_s)
        print(
            f"{count} cards: {jobs} jobs in {took_s:.1f} s, {minutely[-1]:.1f} a minute", flush=True
        )
        printed(f"a card's time for a job, of {count}", account, took_s * 1e3 * count, per=jobs)
    print(f"{len(names)} cards do {minutely[0] / minutely[1]:.2f} times the jobs of one")


def check(options: argparse.Namespace) -> None:
    """Check one kernel, as a command and from a process that stays."""
    words = check_words(options)
    for _ in range(2):  # the first fills caches
        whole_ms, account = commanded(words)
    print(against_bar("the command", whole_ms / 1e3, options.device))
    printed("the command", account, whole_ms)
    stays(options)


def check_words(options: argparse.Namespace) -> list[str]:
    """Give the words of the command."""
    return [
        "check",
        str(options.kernel),
        "--local",
        str(options.dataset),
        "--device",
        options.device,
        "--workloads",
        *workloads_of(options),
    ]


def workloads_of(options: argparse.Namespace) -> list[str]:
    """Name the first five workloads of the size that the device takes."""
    from flashinfer_bench.data import TraceSet
    from flashinfer_bench.data.folders import pack

    definition = pack(options.kernel).definition
    wanted = "small" if options.device == "cpu" else "full"
    traces = TraceSet.from_path(options.dataset).workloads[definition]
    known = [each.workload.uuid for each in traces if each.workload.is_of_class(wanted)]
    return known[:WORKLOADS]


def commanded(words: Sequence[str]) -> tuple[float, Account]:
    """Run a command in a process of its own; give its milliseconds and its account."""
    with tempfile.NamedTemporaryFile() as file:
        began_s = time.perf_counter()
        own = [sys.executable, str(HERE), "command", file.name]
        ended = subprocess.run([*own, *words], capture_output=True, text=True, check=False)
        if ended.returncode:
            sys.exit(f"{' '.join(words)}: exit code {ended.returncode}\n{ended.stderr}")
        return (time.perf_counter() - began_s) * 1e3, json.loads(Path(file.name).read_text())


def command(file: str, words: Sequence[str]) -> None:
    """Be a command that leaves an account."""
    spans = probe_parent()
    from flashinfer_bench.cli.main import cli as run_command

    sys.argv = ["flashinfer-bench", *words]
    try:
        run_command()
    finally:
        Path(file).write_text(json.dumps(spans.take()), encoding="utf-8")


def stays(options: argparse.Namespace) -> None:
    """Check again and again from one process, as a service's worker would."""
    from flashinfer_bench.bench import Benchmark, BenchmarkConfig
    from flashinfer_bench.data import TraceSet
    from flashinfer_bench.data.folders import pack

    spans = probe_parent()
    trace_set, solution = TraceSet.from_path(options.dataset), pack(options.kernel)
    workloads = workloads_of(options)
    took_s: list[float] = []
    busy_ms = 0.0
    with Benchmark(trace_set, BenchmarkConfig(**QUICK), device=options.device) as benchmark:
        for turn in range(1 + options.rounds):
            planned = benchmark._plan_solution(solution, workloads)
            took, busy, _ = ran(benchmark, planned)
            if turn:
                took_s.append(took)
                busy_ms += busy
            else:
                spans.take()
        account = spans.take()
    mean_s = sum(took_s) / len(took_s)
    print(f"\n{against_bar('a check that stays', mean_s, options.device)}")
    share = busy_ms / sum(took_s) / 10
    print(f"the device computes for a timed sample {share:.1f}% of the time")
    printed("a check that stays", account, sum(took_s) * 1e3, per=len(took_s))


def main() -> None:
    """Measure what is asked for."""
    if sys.argv[1:2] == ["command"]:
        command(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("jobs", "check", "cards"))
    parser.add_argument("--dataset", type=Path, default=DATASET)
    parser.add_argument(
        "--kernel", type=Path, default=KERNEL, help="of `check`: a solution's folder"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--clock", help="of `jobs`")
    parser.add_argument("--most", type=int, default=10_000, help="about so many")
    parser.add_argument("--rounds", type=int, default=3, help="of `check`")
    options = parser.parse_args()
    if options.device == "auto":
        from flashinfer_bench.bench.parent.pool import device_names

        options.device = device_names("auto")[0]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    {"jobs": jobs, "check": check, "cards": cards}[options.what](options)


if __name__ == "__main__":
    main()
