"""How the service stands load: a real server, workers that are played, and an empty route to compare with.

    python benchmarks/service.py [--tasks 10000]

Says how long `POST /evaluate` takes beside an empty FastAPI route of the same run, whether 300 submissions of four
tenants through two workers are each done once and how long tenants wait, and how much memory the server takes before
and after many tasks.
"""

from __future__ import annotations

import argparse
import collections
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx2
import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from flashinfer_bench.serve import messages
from flashinfer_bench.serve.client import ServiceClient
from flashinfer_bench.serve.database import SqliteDatabase
from flashinfer_bench.serve.links import HttpLink
from flashinfer_bench.serve.tokens import Quotas, Tokens
from tests.flow.kernels import HONEST, solution, write_dataset
from tests.unit.serve.parts import KEY, capability, signed, trace_of

TENANTS = ("ann", "ben", "cat", "dan")
JOB_S = 0.01
EMPTY = """
import sys, uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.get("/")
def empty():
    return {}
uvicorn.run(app, port=int(sys.argv[1]), log_level="critical")
"""


def main() -> None:
    """Measure one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000, help="for the server's memory")
    tasks = parser.parse_args().tasks
    with tempfile.TemporaryDirectory() as folder:
        root = write_dataset(Path(folder) / "dataset", sizes=(100,))
        store = Path(folder) / "store.sqlite"
        tokens = Tokens(SqliteDatabase(store))
        many = Quotas(10**9, 10**9, 10.0**12)
        keys = {name: tokens.add(name, ["submit"], many) for name in TENANTS}
        worker_key = tokens.add("box", ["worker"])
        with Served(root, store) as (url, process):
            clients = {name: ServiceClient(url, key) for name, key in keys.items()}
            compare_with_empty(clients["ann"])
            stop = threading.Event()
            workers = [
                threading.Thread(target=work, args=(HttpLink(url, worker_key), f"box{n}", stop))
                for n in range(2)
            ]
            for each in workers:
                each.start()
            drain(clients["ann"])
            take_turns(clients, root)
            grow(clients["ann"], process, tasks)
            stop.set()
            for each in workers:
                each.join()


class Served:
    """A server without workers of its own."""

    def __init__(self, root: Path, store: Path) -> None:
        self._command = [
            *(sys.executable, "-m", "flashinfer_bench", "serve", "--local", str(root)),
            *("--store", str(store), "--port", "0", "--no-worker", "--log-level", "ERROR"),
        ]

    def __enter__(self) -> tuple[str, psutil.Process]:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        url = self._process.stdout.readline().split()[-1]
        return url, psutil.Process(self._process.pid)

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def work(link: HttpLink, name: str, stop: threading.Event) -> None:
    """Play a worker whose jobs take a hundredth of a second."""
    worker = link.register(
        messages.Registration(name=name, capability=capability(), key=KEY.public)
    ).worker
    while not stop.is_set():
        grant = link.take(worker, 0.5)
        if grant is None:
            continue
        time.sleep(JOB_S)
        result = signed(trace_of(grant), f"{name}/cpu")
        link.finish(grant.lease, result)


def drain(client: ServiceClient) -> None:
    """Wait until nothing waits."""
    while client.health().queue_size:
        time.sleep(0.1)


def compare_with_empty(client: ServiceClient) -> None:
    """Time submissions beside an empty route, in turns."""
    port = 18_765
    process = subprocess.Popen([sys.executable, "-c", EMPTY, str(port)])
    empty, submitting = [], []
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as other:
            wait_until_up(other)
            for number in range(300):
                began_s = time.perf_counter()
                other.get("/")
                between_s = time.perf_counter()
                client.submit(solution(f"{HONEST}# {number}\n", name=f"timed{number}"))
                empty.append(between_s - began_s)
                submitting.append(time.perf_counter() - between_s)
    finally:
        process.kill()
        process.wait()
    for name, times in (("empty route", empty), ("POST /evaluate", submitting)):
        p95 = statistics.quantiles(times, n=20)[-1]
        print(f"{name:15} median {statistics.median(times) * 1e3:6.2f} ms  95% {p95 * 1e3:6.2f} ms")
    ratio = statistics.quantiles(submitting, n=20)[-1] / statistics.quantiles(empty, n=20)[-1]
    print(f"ratio of the 95% {ratio:.1f}")


def wait_until_up(client: httpx2.Client) -> None:
    """Wait until a server answers."""
    for _ in range(200):
        try:
            client.get("/")
        except httpx2.TransportError:
            time.sleep(0.05)
        else:
            return


def take_turns(clients: dict[str, ServiceClient], root: Path) -> None:
    """300 submissions, half of them one tenant's at once: each is done once, and nobody waits for that one."""
    shares = {"ann": 150, "ben": 50, "cat": 50, "dan": 50}
    began_s = time.perf_counter()
    ids = {
        name: [
            client.submit(solution(f"{HONEST}# {name} {number}\n", name=f"{name}{number}")).task_id
            for number in range(shares[name])
        ]
        for name, client in clients.items()
    }
    submitted_s = time.perf_counter() - began_s
    states = {name: [client.wait(task) for task in ids[name]] for name, client in clients.items()}
    traces = [
        trace.evaluation.provenance.trace_id
        for found in states.values()
        for state in found
        for trace in state.traces or ()
        if trace.evaluation and trace.evaluation.provenance
    ]
    lines = [
        line
        for name in shares
        for file in (root / "traces" / name).rglob("*.jsonl")
        for line in file.read_text().splitlines()
        if '"solution":"timed' not in line
    ]
    print(
        f"300 submissions in {submitted_s:.1f} s: {len(traces)} traces, {len(set(traces))} different, "
        f"{len(lines)} lines in the dataset"
    )
    for name, found in states.items():
        waits = [state.ended_s - state.created_s for state in found if state.ended_s]
        print(
            f"  {name}: {len(found)} tasks, waited {statistics.median(waits):.2f} s (median), {max(waits):.2f} s (most)"
        )


def grow(client: ServiceClient, process: psutil.Process, tasks: int) -> None:
    """Submit many tasks, and look at the server's memory on the way."""
    memory = collections.OrderedDict({0: process.memory_info().rss})
    for number in range(1, tasks + 1):
        client.submit(solution(f"{HONEST}# {number}\n", name=f"many{number}"))
        if number % (tasks // 5) == 0:
            drain(client)
            memory[number] = process.memory_info().rss
    for number, rss in memory.items():
        print(f"memory after {number:6} tasks {rss / 2**20:6.1f} MiB")


if __name__ == "__main__":
    main()
