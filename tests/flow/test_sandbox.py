"""Solutions that try to get out, through the real engine; each trial is looked at from outside."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import sys
import sysconfig
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

import flashinfer_bench
from flashinfer_bench.bench import Benchmark
from flashinfer_bench.bench.parent import launcher
from flashinfer_bench.bench.sandbox import container
from flashinfer_bench.bench.sandbox.isolation import sandbox_levels
from flashinfer_bench.cli.main import cli
from flashinfer_bench.compile.cache import solution_folder
from flashinfer_bench.data import Evaluation, Solution, TraceSet
from flashinfer_bench.errors import DeviceError
from tests import warm
from tests.flow.kernels import HONEST, dataset, quick, solution, write_dataset
from tests.marks import mostly_full

PROCESS, CONTAINER = sandbox_levels()
IS_WHOLE = all(measure.missing is None for measure in PROCESS.measures)
needs_all = pytest.mark.skipif(
    not IS_WHOLE, reason=f"not all of the process level is in force here: {PROCESS.measures}"
)

OTHER = solution("# mine\n" + HONEST, name="somebody_elses")

READS = {
    # what only reading would give away: each must raise
    "the dataset's reference": "open({definition!r}).read()",
    "the dataset's folder": "os.listdir({root!r})",
    "the home folder": "os.listdir(pwd.getpwuid(os.getuid()).pw_dir)",
    "a file in the home folder by way of a link": (
        "os.symlink({secret!r}, 'link') or open('link').read()"
    ),
    "another solution's build by a hard link": "os.link({other_build!r}, 'stolen')",
    "the passwords of the machine": "open('/etc/shadow').read()",
    "the temporary folders of others": "[x for x in os.listdir({temporary!r}) if 'dataset' in x][0]",
    "the judge's memory": "open('/proc/{judge}/mem', 'rb').read(1)",
    "the judge's memory map": "open('/proc/{judge}/maps').read()",
    "the judge's descriptors": "os.listdir('/proc/{judge}/fd')",
    "the parent's environment": "open('/proc/{parent}/environ').read()",
    "the parent's command line": "open('/proc/{parent}/cmdline').read() or 1 / 0",
    "which processes there are": (
        "[x for x in map(int, filter(str.isdigit, os.listdir('/proc'))) if x == {parent}][0]"
    ),
    "the judge's memory by process_vm_readv": "checked(libc.syscall(310, {judge}, 0, 0, 0, 0, 0))",
    "the judge by ptrace": "checked(libc.ptrace(16, {judge}, 0, 0))",
    "the judge's descriptors by pidfd": "checked(libc.syscall(438, os.pidfd_open({judge}), 3, 0))",
    "a server on this machine": "socket.create_connection(('127.0.0.1', {port}), 2).send(b'hello')",
    "an abstract socket": (
        "(lambda s: (s.connect({abstract!r}), s.send(b'hello')))(socket.socket(socket.AF_UNIX))"
    ),
    "a socket file": (
        "(lambda s: (s.connect({socket_file!r}), s.send(b'hello')))(socket.socket(socket.AF_UNIX))"
    ),
    "a socket file by a letter": (
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'hello', {letters!r})"
    ),
    "a name server": "socket.getaddrinfo('flashinfer.ai', 443)",
    "the keys of the user": "checked(libc.syscall(250, 0, -3, 1))",
    "memory that outlives its process": "checked(libc.shmget(4711, 4096, 0o1666))",
    "a ring for calls past the filter": "checked(libc.syscall(425, 8, bytes(120)))",
    "more memory than there is": "[torch.empty(1 << 30, dtype=torch.uint8) for _ in range({more})]",
    "a file larger than a disk": "os.truncate(open('large', 'w').fileno(), 1 << 40)",
}

WRITES = {
    # what shows outside: some of it succeeds within a container, on copies
    "a file in /tmp": "open('/tmp/{mark}', 'w')",
    "a file in /dev/shm": "open('/dev/shm/{mark}', 'w')",
    "a file in a world-writable folder": "open({open_folder!r} + '/{mark}', 'w')",
    "a file among the builds of another": "open({other_folder!r} + '/{mark}', 'w')",
    "a file among all builds": "open({cache!r} + '/solutions/{mark}', 'w')",
    "another's build moved away": "os.rename({other_folder!r}, {other_folder!r} + '{mark}')",
    "its own builds in another's place": "os.rename(os.environ['HOME'], {other_folder!r})",
    "a file in site-packages": "open({packages!r} + '/{mark}.pth', 'w')",
    "a file in this package": "open({package!r} + '/{mark}.py', 'w')",
    "a changed definition": "open({definition!r}, 'a').write(' ')",
    "a shortened definition": "os.truncate({definition!r}, 3)",
    "a removed definition": "os.remove({definition!r})",
    "a definition nobody may read": "os.chmod({definition!r}, 0)",
    "a dataset nobody may list": "os.chmod({root!r}, 0)",
    "a definition of another day": "os.utime({definition!r}, (1, 1))",
    "an attribute of a definition": "os.setxattr({definition!r}, 'user.{mark}', b'x')",
    "a judge of little priority": "os.setpriority(os.PRIO_PROCESS, {judge}, 19)",
    "everybody of little priority": "os.setpriority(os.PRIO_USER, os.getuid(), 19)",
    "a judge on one processor": "os.sched_setaffinity({judge}, [0])",
    "a judge with few descriptors": "resource.prlimit({judge}, resource.RLIMIT_NOFILE, (3, 3))",
    "a stopped judge": "os.kill({judge}, signal.SIGSTOP)",
    "a killed judge": "os.kill({judge}, signal.SIGKILL)",
    "a killed fork server": "os.kill({server}, signal.SIGKILL)",
    "a signal to the parent": "os.kill({parent}, signal.SIGURG)",
    "a signal to everybody": "os.kill(-1, signal.SIGURG)",
    "a signal to its group": "os.killpg(0, signal.SIGURG)",
    "a signal by way of a pipe": "signal_by_pipe({parent}, signal.SIGURG)",
    "a package from the network": (
        "subprocess.run([sys.executable, '-m', 'pip', 'download', '--no-deps', '--retries', '0', "
        "'--index-url', 'http://127.0.0.1:{port}/simple', 'thing'], check=True, timeout=60)"
    ),
    "ten thousand nested folders": "[(os.mkdir('d'), os.chdir('d')) for _ in range(10_000)]",
}

TRIES = """
import ctypes, fcntl, json, os, pwd, resource, signal, socket, subprocess, sys, torch
libc = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def signal_by_pipe(pid, number):
    reader, writer = os.pipe()
    fcntl.fcntl(reader, 8, pid)
    fcntl.fcntl(reader, 10, number)
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(writer, b"x")
def attempt(code):
    try:
        return "got " + repr(eval(code))[:60]
    except BaseException as error:
        return "refused " + repr(error)[:100]
print("open at the start", json.dumps([os.readlink(f"/proc/self/fd/{{n}}")
      for n in sorted(map(int, os.listdir("/proc/self/fd")))[:-1]]), flush=True)
tries = json.loads({tries!r})
def run(x):
    while tries:
        name = next(iter(tries))
        print("tried", json.dumps([name, attempt(tries.pop(name))]), flush=True)
    return x + 1
"""


@dataclass
class World:
    """What is around the solutions, and what happened to it."""

    level: str
    benchmark: Benchmark
    root: Path
    places: dict[str, object]
    accepted: list[str]
    signals: list[int]
    found: dict[str, str]
    descriptors: list[str]
    before: dict[str, object]
    evaluation: Evaluation
    after: Evaluation

    @property
    def definition(self) -> Path:
        return Path(str(self.places["definition"]))


def evaluate(benchmark: Benchmark, candidate: Solution) -> Evaluation:
    (trace,) = benchmark.run_solution(candidate, dump_traces=False)
    return trace.evaluation


def require(level: str) -> None:
    if level == "process" and not IS_WHOLE:
        pytest.skip(f"not all of the process level is in force here: {PROCESS.measures}")
    if level == "container" and CONTAINER.missing is not None:
        pytest.skip(CONTAINER.missing)


@pytest.fixture(scope="module", params=mostly_full(["process", "container"], "process"))
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Try everything once per level; the tests look at what came of it."""
    require(request.param)
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("FIB_CACHE_PATH", str(tmp_path_factory.mktemp("cache")))
        root = write_dataset(tmp_path_factory.mktemp("dataset"))
        store = TraceSet.from_path(root)
        benchmark = stack.enter_context(
            Benchmark(store, quick(sandbox=request.param, timeout_seconds=100), device="cpu")
        )
        assert evaluate(benchmark, OTHER).status == "PASSED"
        accepted, places = surroundings(root, stack, tmp_path_factory)
        signals: list[int] = []
        previous = signal.signal(signal.SIGURG, lambda number, _: signals.append(number))
        stack.callback(signal.signal, signal.SIGURG, previous)
        stack.callback(Path(str(places["open_folder"])).chmod, 0o700)
        before = state(places)
        tries = {
            name: code.replace("{{", "{").format(**places)
            for name, code in (READS | WRITES).items()
        }
        source = TRIES.format(tries=json.dumps(tries))
        evaluation = evaluate(benchmark, solution(source, name="tries_all"))
        log = evaluation.log.splitlines()
        found = dict(json.loads(line[6:]) for line in log if line.startswith("tried "))
        (opened,) = (line[18:] for line in log if line.startswith("open at the start "))
        after = evaluate(benchmark, solution(HONEST, name="honest_afterwards"))
        yield World(
            request.param, benchmark, root, places, accepted, signals,
            found, json.loads(opened), before, evaluation, after,
        )  # fmt: skip


def surroundings(
    root: Path, stack: contextlib.ExitStack, folders: pytest.TempPathFactory
) -> tuple[list[str], dict[str, object]]:
    """Set out what a solution could find: servers, files of others, processes."""
    accepted: list[str] = []
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
    name = f"\0flashinfer-bench-test-{os.getpid()}"
    abstract.bind(name)
    open_folder = folders.mktemp("open")
    open_folder.chmod(0o777)
    file = stack.enter_context(socket.socket(socket.AF_UNIX))
    letters = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    file.bind(f"{open_folder}/calls")
    letters.bind(f"{open_folder}/letters")
    callable_ones = (server, abstract, file)
    for each in callable_ones[1:]:
        each.listen()
    for each in (*callable_ones, letters):
        each.setblocking(False)

    def note_connections() -> None:
        for each in callable_ones:
            with contextlib.suppress(BlockingIOError):
                each.accept()[0].close()
                accepted.append(str(each.getsockname()))
        with contextlib.suppress(BlockingIOError):
            accepted.append(str(letters.recv(10)))

    secret = Path.home() / f".flashinfer-bench-test-{os.getpid()}"
    secret.write_text("secret")
    stack.callback(secret.unlink)
    cache = Path(os.environ["FIB_CACHE_PATH"])
    other = solution_folder(cache, OTHER)
    (build,) = other.glob("*/*/main.py")
    judge = workers()[0]
    places: dict[str, object] = {
        "root": str(root),
        "definition": str(next(root.glob("definitions/*/*.json"))),
        "secret": str(secret),
        "other_folder": str(other),
        "other_build": str(build),
        "cache": str(cache),
        "temporary": str(folders.getbasetemp()),
        "open_folder": str(open_folder),
        "packages": sysconfig.get_path("purelib"),
        "package": str(Path(flashinfer_bench.__file__).parent),
        "judge": judge.pid,
        "server": judge.ppid(),
        "parent": os.getpid(),
        "port": server.getsockname()[1],
        "abstract": name,
        "socket_file": f"{open_folder}/calls",
        "letters": f"{open_folder}/letters",
        "mark": f"left_by_a_solution_{os.getpid()}",
        "more": 4 * (psutil.virtual_memory().total >> 30),
        "note": note_connections,
    }
    return accepted, places


def workers() -> list[psutil.Process]:
    """The judge, then the candidates."""
    return sorted(warm.newest_server().children(), key=lambda each: each.create_time())


def state(places: dict[str, object]) -> dict[str, object]:
    """What a solution must leave as it is."""
    judge = psutil.Process(int(str(places["judge"])))
    definition, root = Path(str(places["definition"])), Path(str(places["root"]))
    return {
        "content": definition.read_bytes(),
        "modes": [stat.S_IMODE(each.stat().st_mode) for each in (definition, root)],
        "time": definition.stat().st_mtime,
        "attributes": os.listxattr(definition),
        "nice": [judge.nice(), psutil.Process().nice()],
        "processors": judge.cpu_affinity(),
        "descriptors": judge.rlimit(psutil.RLIMIT_NOFILE),
        "judge": (judge.create_time(), judge.status() == psutil.STATUS_STOPPED),
        "other": sorted(map(str, Path(str(places["other_folder"])).rglob("*"))),
    }


def test_an_honest_solution_afterwards_is_unaffected(world: World) -> None:
    assert world.evaluation.status == "PASSED", world.evaluation.log
    assert world.after.status == "PASSED", world.after.log


def test_the_trace_says_what_held_the_solution(world: World) -> None:
    assert world.evaluation.provenance.sandbox == world.level
    assert world.evaluation.provenance.sandbox_missing is None


@pytest.mark.parametrize("name", READS)
def test_out_of_reach(world: World, name: str) -> None:
    assert world.found[name].startswith("refused "), world.found[name]


def test_everything_was_tried(world: World) -> None:
    assert world.found.keys() == READS.keys() | WRITES.keys()


def test_it_leaves_no_file_outside_of_its_own_folders(world: World) -> None:
    mark = str(world.places["mark"])
    folders = [
        *("/tmp", "/dev/shm"),
        *(
            str(world.places[name])
            for name in ("open_folder", "other_folder", "packages", "package")
        ),
        f"{world.places['cache']}/solutions",
    ]

    left = [each for folder in folders for each in Path(folder).iterdir() if mark in each.name]

    assert left == []


def test_dataset_judge_and_other_builds_are_as_they_were(world: World) -> None:
    assert state(world.places) == world.before


def test_no_signal_arrives(world: World) -> None:
    assert world.signals == []


def test_nobody_outside_is_called(world: World) -> None:
    note = world.places["note"]
    assert callable(note)

    note()

    assert world.accepted == []


def test_it_starts_with_its_channel_and_its_log_only(world: World) -> None:
    kinds = [each.partition(":")[0] for each in world.descriptors]

    assert kinds == ["/dev/null", "pipe", "pipe", "socket"]


def test_its_temporary_folder_goes_with_it_however_deep(world: World) -> None:
    world.benchmark.run_solution(solution(HONEST, name="one_more"), dump_traces=False)
    server = warm.newest_server()
    folder = Path(server.cmdline()[-1])

    nested = list(folder.glob("candidate-*/d"))

    assert world.found["ten thousand nested folders"].startswith("got ")
    assert nested == []


@pytest.mark.parametrize("level", mostly_full(["process", "container"], "process"))
def test_what_it_starts_ends_with_it(level: str) -> None:
    require(level)
    seconds = f"600.{os.getpid()}"
    source = f"""
    import os, subprocess
    subprocess.Popen(["sleep", "{seconds}"], start_new_session=True)
    def run(x):
        return x + 1
    """
    with Benchmark(dataset(), quick(sandbox=level), device="cpu") as benchmark:
        found = evaluate(benchmark, solution(source, name="leaves_a_child"))
        left = [
            each
            for each in psutil.process_iter(["cmdline"])
            if seconds in (each.info["cmdline"] or ())
        ]

    assert found.status == "PASSED", found.log
    assert left == []


def change_server(patch: pytest.MonkeyPatch, change: str) -> None:
    """Start fork servers in which one thing is otherwise."""
    code = (
        "import sys; from pathlib import Path; "
        "from flashinfer_bench.bench.sandbox import limits, seccomp; "
        f"from flashinfer_bench.bench.worker import server; {change}; "
        "server.serve(int(sys.argv[1]), Path(sys.argv[2]))"
    )
    patch.setattr(
        launcher,
        "_server_command",
        lambda end, folder: [sys.executable, "-P", "-c", code, str(end), str(folder)],
    )


SWARM = """
import os, time
def run(x):
    for _ in range(300):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    time.sleep(5)
    return x + 1
"""


@needs_all
def test_a_swarm_of_processes_ends_the_solution_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change_server(monkeypatch, "limits.MOST_PROCESSES = 100")
    with Benchmark(dataset(), quick(), device="cpu") as benchmark:
        found = evaluate(benchmark, solution(SWARM, name="swarms"))
        after = evaluate(benchmark, solution(HONEST, name="after"))

    assert found.status == "RUNTIME_ERROR", found.log
    assert after.status == "PASSED", after.log


@pytest.mark.parametrize("who", mostly_full(["judge", "reference"], "judge"))
def test_a_job_is_played_again_before_a_dead_judge_is_the_datasets_fault(who: str) -> None:
    waits = "import time\ndef run(x):\n    time.sleep(0.05)\n    return x + 1\n"
    with Benchmark(dataset(), quick(), device="cpu") as benchmark:
        evaluate(benchmark, solution(HONEST))
        doomed = workers()[0 if who == "judge" else 1]
        killing = start_killing(doomed)

        found = evaluate(benchmark, solution(waits, name="waits"))
        killing()

    assert found.status == "PASSED", found.log
    assert not doomed.is_running()


def start_killing(victim: psutil.Process) -> Callable[[], None]:
    """Kill a process in the middle of the next job."""

    def kill() -> None:
        time.sleep(0.5)
        victim.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    return thread.join


HONEST_ONES = {
    "keeps a pool of threads": """
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(2)
        def run(x):
            return pool.submit(lambda: x + 1).result()
        """,
    "starts a program": """
        import subprocess, sys
        def run(x):
            said = subprocess.run([sys.executable, "-c", "print(41 + 1)"], capture_output=True, text=True, check=True)
            assert said.stdout == "42\\n", said
            return x + 1
        """,
    "computes in a process of its own": """
        import multiprocessing
        def add(end):
            end.send(end.recv() + 1)
        def run(x):
            near, far = multiprocessing.Pipe()
            worker = multiprocessing.get_context("fork").Process(target=add, args=(far,))
            worker.start()
            near.send(x.numpy())
            import torch
            y = torch.from_numpy(near.recv())
            worker.join()
            return y
        """,
    "compiles for itself": """
        import ctypes, os, subprocess, tempfile
        folder = tempfile.mkdtemp()
        source = "void f(float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = x[i] + 1; }"
        open(folder + "/k.c", "w").write(source)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", folder + "/k.so", folder + "/k.c"], check=True)
        kernel = ctypes.CDLL(folder + "/k.so")
        def run(x):
            import torch
            y = torch.empty_like(x)
            kernel.f(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), x.numel())
            return y
        """,
    "keeps files in its home": """
        from pathlib import Path
        cache = Path.home() / ".cache" / "mine"
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "tuned").write_text("4")
        def run(x):
            assert (cache / "tuned").read_text() == "4"
            return x + 1
        """,
    "signals its own child": """
        import os, signal, subprocess
        child = subprocess.Popen(["sleep", "60"])
        os.kill(child.pid, signal.SIGTERM)
        assert child.wait(10) == -signal.SIGTERM
        def run(x):
            return x + 1
        """,
    "uses torch.compile": """
        import torch
        @torch.compile
        def run(x):
            return x + 1
        """,
}


def test_a_pool_of_multiprocessing_is_told_what_takes_its_place() -> None:
    made_first = solution(
        "from multiprocessing.pool import ThreadPool\n\npool = ThreadPool(2)\n\n\ndef run(x):\n    return x + 1\n",
        name="made_first",
    )
    made_in_a_call = solution(
        "from multiprocessing import Lock\n\n\ndef run(x):\n    with Lock():\n        return x + 1\n",
        name="made_in_a_call",
    )
    with Benchmark(dataset(made_first, made_in_a_call), quick(), device="cpu") as benchmark:
        ended = [each.outcome for each in benchmark.run(benchmark.plan(), dump_traces=False)]

    assert len(ended) == 2
    for outcome in ended:
        assert "ThreadPoolExecutor, or --sandbox container" in outcome.explanation


QUICK_ONES = tuple(name for name in HONEST_ONES if "compile" not in name)


@pytest.mark.parametrize(
    ("level", "names"),
    mostly_full(
        [
            ("process", QUICK_ONES),
            ("process", tuple(HONEST_ONES)),
            ("container", tuple(HONEST_ONES)),
        ],
        ("process", QUICK_ONES),
    ),
)
def test_honest_solutions_go_on_working(level: str, names: tuple[str, ...]) -> None:
    require(level)
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    config = quick(sandbox=level, timeout_seconds=120)
    with Benchmark(dataset(), config, device="cpu") as benchmark:
        ended = {
            name: evaluate(
                benchmark, solution(textwrap.dedent(HONEST_ONES[name]), name=name.replace(" ", "_"))
            )
            for name in names
        }

    failed = {name: each.log for name, each in ended.items() if each.status != "PASSED"}
    assert failed == {}


@pytest.mark.full
def test_switched_off_is_recorded_as_such() -> None:
    with Benchmark(dataset(), quick(sandbox="off"), device="cpu") as benchmark:
        found = evaluate(benchmark, solution(HONEST)).provenance

    assert found.sandbox == "off"
    assert found.sandbox_missing == ["files", "network", "signals", "processes", "capabilities"]


@needs_all
def test_where_something_is_missing_the_trace_names_it_and_required_does_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change_server(monkeypatch, "seccomp.is_known_machine = lambda: False")
    with Benchmark(dataset(), quick(), device="cpu") as benchmark:
        found = evaluate(benchmark, solution(HONEST))
    with (
        Benchmark(dataset(), quick(sandbox="required"), device="cpu") as benchmark,
        pytest.raises(DeviceError, match=r"a sandbox is required.*network: no filter is written"),
    ):
        evaluate(benchmark, solution(HONEST))

    assert found.status == "PASSED"
    assert found.provenance.sandbox == "partial"
    assert {"network", "processes"} <= set(found.provenance.sandbox_missing or ())


@pytest.mark.full
def test_a_run_says_what_of_the_sandbox_was_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    change_server(monkeypatch, "seccomp.is_known_machine = lambda: False")
    root = write_dataset(tmp_path / "dataset", solution(HONEST))
    options = ["run", "--local", str(root), "--device", "cpu", "--num-trials", "1"]

    partial = CliRunner().invoke(cli, options)
    off = CliRunner().invoke(cli, [*options, "--sandbox", "off"])

    assert "the sandbox was partial, without: " in partial.stderr
    assert "network" in partial.stderr
    assert "the sandbox was partial" not in off.stderr


def test_a_container_that_cannot_be_is_said_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(container, "_PROGRAM", "no-such-program")
    with (
        Benchmark(dataset(), quick(sandbox="container"), device="cpu") as benchmark,
        pytest.raises(DeviceError, match="bubblewrap is not installed"),
    ):
        evaluate(benchmark, solution(HONEST))
