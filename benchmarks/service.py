"""How the service stands load: a real server, workers that are played, and an empty route to compare with.

    python benchmarks/service.py [--tasks 10000] [--only times|memory] [--postgres]

Says how long `POST /evaluate` takes beside an empty FastAPI route of the same run, how long a known answer takes,
whether 300 submissions of four tenants through two workers are each done once and how long tenants wait, how long
answers take while 1,000 polls and 50 event streams are open, and how much memory the server takes before and after
many tasks. Exits with 1 where one of the bars is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
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
from flashinfer_bench.serve.database import open_store
from flashinfer_bench.serve.links import HttpLink
from flashinfer_bench.serve.tokens import Quotas, Tokens
from tests.flow.kernels import HONEST, solution, write_dataset
from tests.postgres import own_postgres
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


POLLS, STREAMS = 1000, 50
missed: list[str] = []


def main() -> None:
    """Measure one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000, help="for the server's memory")
    parser.add_argument("--only", choices=["times", "memory"], help="one half of it")
    parser.add_argument("--postgres", action="store_true", help="keep tasks in a PostgreSQL")
    options = parser.parse_args()
    with contextlib.ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory()))
        root = write_dataset(folder / "dataset", sizes=(100,))
        store = str(folder / "store.sqlite")
        if options.postgres:
            store = ending.enter_context(own_postgres())
        tokens = Tokens(open_store(store))
        many = Quotas(10**9, 10**9, 10.0**12)
        keys = {name: tokens.add(name, ["submit"], many) for name in TENANTS}
        worker_key = tokens.add("box", ["worker"])
        url, process = ending.enter_context(Served(root, store))
        clients = {name: ServiceClient(url, key) for name, key in keys.items()}
        if options.only != "memory":
            compare_with_empty(clients["ann"])
            asyncio.run(keep_waiting(url, keys["ann"], process))
        stop = threading.Event()
        workers = [
            threading.Thread(target=work, args=(HttpLink(url, worker_key), f"box{n}", stop))
            for n in range(2)
        ]
        for each in workers:
            each.start()
        drain(clients["ann"])
        if options.only != "memory":
            answer_again(clients["ben"])
            take_turns(clients, root)
        if options.only != "times":
            grow(clients["ann"], process, options.tasks)
        stop.set()
        for each in workers:
            each.join()
    sys.exit(bool(missed))


def bar(text: str, value: float, most: float) -> None:
    """Say whether a figure is within its bar."""
    is_met = value <= most
    print(f"{'ok    ' if is_met else 'MISSED'} {text}: {value:.3g}, at most {most:g}")
    if not is_met:
        missed.append(text)


class Served:
    """A server without workers of its own."""

    def __init__(self, root: Path, store: str) -> None:
        self._command = [
            *(sys.executable, "-m", "flashinfer_bench", "serve", "--local", str(root)),
            *("--store", store, "--port", "0", "--no-worker", "--log-level", "ERROR"),
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
        print(
            f"{name:15} median {statistics.median(times) * 1e3:6.2f} ms  95% {p95(times) * 1e3:6.2f} ms"
        )
    bar("95% of POST /evaluate over an empty route's", p95(submitting) / p95(empty), 20)


def p95(times: list[float]) -> float:
    """Say what 19 of 20 keep below."""
    return statistics.quantiles(times, n=20)[-1]


def answer_again(client: ServiceClient) -> None:
    """Time answers that are known."""
    known = solution(f"{HONEST}# known\n", name="known")
    client.wait(client.submit(known).task_id)
    times = []
    for _ in range(50):
        began_s = time.perf_counter()
        assert client.submit(known).cached
        times.append(time.perf_counter() - began_s)
    bar("a known answer, the slowest of 50, in seconds", max(times), 0.2)


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
        if any(f'"solution":"{each}' in line for each in TENANTS)
    ]
    print(
        f"       300 submissions in {submitted_s:.1f} s: {len(traces)} traces, {len(set(traces))} different, "
        f"{len(lines)} lines in the dataset"
    )
    bar("tasks that were not done once", abs(300 - len(lines)) + len(traces) - len(set(traces)), 0)
    begun_s = min(state.created_s for found in states.values() for state in found)
    took_s = max(state.ended_s or 0 for found in states.values() for state in found) - begun_s
    for name, found in states.items():
        fair = sum(min(count, shares[name]) for count in shares.values()) / 300 * took_s
        last_s = max(state.ended_s or 0 for state in found) - begun_s
        bar(f"{name}'s {len(found)} tasks, over their share of {took_s:.1f} s", last_s / fair, 2)


async def keep_waiting(url: str, token: str, process: psutil.Process) -> None:
    """Ask while many wait for a task that nobody does, and while none does."""
    async with waiting_client(url, token) as asking:
        task = (await submitted(asking, "waits")).json()["task_id"]
        before = await asked(asking, task, "before")
        polls = [
            asyncio.create_task(answered(url, token, f"/tasks/{task}?timeout=600"))
            for _ in range(POLLS)
        ]
        streams = [
            asyncio.create_task(answered(url, token, f"/tasks/{task}/events"))
            for _ in range(STREAMS)
        ]
        process.cpu_percent()
        await asyncio.sleep(1)
        while process.cpu_percent() > 5:  # all have come, and the server has nothing to do
            await asyncio.sleep(1)
        during = await asked(asking, task, "during")
        still = sum(not each.done() for each in (*polls, *streams))
        began_s = time.perf_counter()
        await asking.post(f"/tasks/{task}/cancel")
        answers = await asyncio.gather(*polls)
        told = await asyncio.gather(*streams)
        took_s = time.perf_counter() - began_s
    assert all(b'"status":"failed"' in each for each in answers)
    assert all(b"event: failed" in each for each in told)
    print(f"{still} polls and streams wait, and hear of the end within {took_s:.2f} s")
    bar("polls and streams that did not wait", POLLS + STREAMS - still, 0)
    for route, times in during.items():
        for name, of in (("median", statistics.median), ("95%", p95)):
            now_s, was_s = of(times), of(before[route])
            print(
                f"       {name} of {route}: {was_s * 1e3:.2f} ms, {now_s * 1e3:.2f} ms while they wait"
            )
        bar(
            f"95% of {route} while they wait, over that without", p95(times) / p95(before[route]), 2
        )


def waiting_client(url: str, token: str) -> httpx2.AsyncClient:
    """Make a client with as many connections as it likes."""
    return httpx2.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
        timeout=900,
    )


async def submitted(client: httpx2.AsyncClient, name: str) -> httpx2.Response:
    """Submit a solution of a name."""
    body = messages.Submission(solution=solution(f"{HONEST}# {name}\n", name=name))
    headers = {"Content-Type": "application/json"}
    answer = await client.post("/evaluate", content=body.to_json(), headers=headers)
    return answer.raise_for_status()


async def asked(client: httpx2.AsyncClient, task: str, name: str) -> dict[str, list[float]]:
    """Time two routes, in turns."""
    times: dict[str, list[float]] = {"GET /tasks/{id}": [], "POST /evaluate": []}
    for number in range(200):
        began_s = time.perf_counter()
        await client.get(f"/tasks/{task}")
        between_s = time.perf_counter()
        await submitted(client, f"{name}{number}")
        times["GET /tasks/{id}"].append(between_s - began_s)
        times["POST /evaluate"].append(time.perf_counter() - between_s)
    return times


async def answered(url: str, token: str, path: str) -> bytes:
    """Ask on a connection of its own, by hand: a client's pool of a thousand takes longer than the server."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode())
    content = await reader.read(-1)
    writer.close()
    return content


def grow(client: ServiceClient, process: psutil.Process, tasks: int) -> None:
    """Submit many tasks, and look at the server's memory on the way."""
    memory = collections.OrderedDict({0: process.memory_info().rss})
    step = max(1, tasks // 5)
    for number in range(1, tasks + 1):
        client.submit(solution(f"{HONEST}# {number}\n", name=f"many{number}"))
        if number % step == 0:
            drain(client)
            memory[number] = process.memory_info().rss
    for number, rss in memory.items():
        print(f"memory after {number:6} tasks {rss / 2**20:6.1f} MiB")
    first, *_, last = list(memory.values())[1:]
    bar("MiB that the server grew by in the last four fifths", (last - first) / 2**20, 10)


if __name__ == "__main__":
    main()
