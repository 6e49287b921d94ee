"""The recipes of examples/service: read by what reads them, and their commands run as processes."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.commands import call
from tests.flow.kernels import HONEST, wait_for
from tests.flow.service_processes import Place, place
from tests.postgres import own_postgres

pytest.importorskip("uvicorn", reason="the service's extra is not installed")
pytest.importorskip("fastapi", reason="the service's extra is not installed")
pytest.importorskip("torch", reason="running solutions needs torch")

RECIPES = Path(__file__).parents[2] / "examples" / "service"
COMPOSE = yaml.safe_load((RECIPES / "compose.yaml").read_text())
UNITS = sorted(RECIPES.glob("*.service"))
PROGRAM = "/opt/flashinfer-bench/bin/flashinfer-bench"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    with place(tmp_path, sizes=(100,)) as found:
        yield found


def replaced(words: list[str], places: dict[str, str]) -> list[str]:
    for was, now in places.items():
        words = [re.sub(was, lambda _, now=now: now, word) for word in words]
    return words


def evaluated(at: Place, token: Path) -> dict[str, object]:
    file = at.folder / "kernel.py"
    file.write_text(HONEST)
    words = ("--server", at.url, "--definition", "increment", "--token-file", str(token))
    return json.loads(call("submit", file, *words, "--json").stdout)


def test_the_commands_of_the_compose_file_are_a_farm(here: Place) -> None:
    text = (RECIPES / "compose.yaml").read_text()
    tokens = re.findall(r"run --rm server (tokens .*) > (\S+)", text)
    with own_postgres() as address:
        places = {
            'postgresql://[^ ]*|"?\\$STORE"?': address,
            "^--local=/dataset": f"--local={here.dataset}",
        }
        for words, name in tokens:
            made = call(*replaced(shlex.split(words), places))
            (here.folder / name).write_text(made.stdout)
        words = replaced(COMPOSE["services"]["server"]["command"], places)
        server = here.start(*words, "--port=0")
        assert server.stdout is not None
        port = server.stdout.readline().strip().rpartition(":")[2]
        here.url = f"http://127.0.0.1:{port}"
        (secret,) = COMPOSE["services"]["worker"]["secrets"]
        key = here.folder / COMPOSE["secrets"][secret]["file"]
        places |= {"http://server:8000": here.url, f"/run/secrets/{secret}": str(key)}
        here.start(*replaced(COMPOSE["services"]["worker"]["command"], places), "--device=cpu")

        done = evaluated(here, here.folder / "alice.token")
        here.end()

    assert [name for _, name in tokens] == ["alice.token", "worker.token"]
    assert done["exit_code"] == 0, here.logs()


def test_the_compose_file_names_what_it_has() -> None:
    services = COMPOSE["services"]
    named = {
        volume.partition(":")[0]
        for each in services.values()
        for volume in each["volumes"]
        if not volume.startswith(".")
    }

    assert named == set(COMPOSE["volumes"])
    assert set(services["server"]["depends_on"]) <= set(services)
    for each in ("server", "worker"):
        build = services[each]["build"]
        assert (RECIPES / build["context"] / build["dockerfile"]).is_file()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_finds_no_fault_in_a_unit(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    copied = tmp_path / unit.name
    program = str(Path(sys.executable).parent / "flashinfer-bench")
    copied.write_text(unit.read_text().replace(PROGRAM, program))

    done = subprocess.run(
        ["systemd-analyze", "verify", copied], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_commands_of_the_units_work_and_end_when_told_to(here: Place) -> None:
    server_unit, worker_unit = (
        RECIPES / f"flashinfer-bench{each}.service" for each in ("", "-worker")
    )
    store = str(here.folder / "store.sqlite")
    alice, worker = here.folder / "alice.token", here.folder / "token"
    alice.write_text(call("tokens", "add", "alice", "--store", store).stdout)
    worker.write_text(call("tokens", "add", "box", "--scopes", "worker", "--store", store).stdout)
    places = {"/srv/dataset": str(here.dataset), "/var/lib/[^ ]*": store, "%d/token": str(worker)}
    server = here.start(*replaced(command(server_unit), places), "--port=0")
    assert server.stdout is not None
    told = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
    here.url = told["url"].replace("0.0.0.0", "127.0.0.1")
    working = here.start(
        *replaced(command(worker_unit), {**places, "http://farm:8000": here.url}), "--device=cpu"
    )

    done = evaluated(here, alice)
    working.send_signal(signal.SIGTERM)
    ended = working.wait(60)
    with here.client(alice.read_text().strip()) as client:
        wait_for(lambda: not client.health().workers)
    server.send_signal(signal.SIGTERM)

    assert done["exit_code"] == 0, here.logs()
    assert (ended, server.wait(60)) == (0, 0)


def command(unit: Path) -> list[str]:
    read = configparser.RawConfigParser(strict=False)
    read.read(unit)
    program, *words = shlex.split(read["Service"]["ExecStart"])
    assert program == PROGRAM
    return words
