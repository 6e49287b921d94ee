"""One scripted policy gets the same reward through every adapter as from the command line.

Each library has its extra, and an environment of its own: its test is skipped where it is not installed.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from flashinfer_bench.rl.policy_tasks import NoVerdictError, PolicyTasks
from tests.commands import call
from tests.flow.kernels import HONEST, write_dataset

SIZES = (1000, 2000, 3000, 4000, 5000)
KERNELS = {
    "right": HONEST,
    "wrong": "def run(x):\n    return x + 2\n",
    "not building": "def run(x:\n",
    "cheating": "def run(x):\n    y = x + 1\n    x.zero_()\n    return y\n",
}
ANSWERS = {name: f"Here it is.\n\n```python\n{code}```\n" for name, code in KERNELS.items()}
"""What the policy says, in this order."""


@dataclass(frozen=True)
class Judged:
    """A dataset, the verdicts' folder, and what the command line gave."""

    dataset: Path
    ledger: Path
    rewards: dict[str, float]

    @property
    def settings(self) -> dict[str, str]:
        return {"dataset": str(self.dataset), "device": "cpu", "ledger": str(self.ledger)}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """The command line judges first; its verdicts stay in the folder that everybody names."""
    folder = tmp_path_factory.mktemp("judged")
    root, ledger = write_dataset(folder / "ds", sizes=SIZES), folder / "ledger"
    files = [folder / f"{number}.py" for number in range(len(KERNELS))]
    for file, code in zip(files, KERNELS.values(), strict=True):
        file.write_text(code)
    done = call(
        *("judge", *files, "--definition", "increment", "--local", root),
        *("--device", "cpu", "--ledger", ledger, "--json"),
    )
    assert done.returncode == 1, done.stderr
    verdicts = json.loads(done.stdout)["verdicts"]
    rewards = {name: each["reward"] for name, each in zip(KERNELS, verdicts, strict=True)}
    return Judged(root, ledger, rewards)


@pytest.fixture
def policy() -> Iterator[str]:
    """A scripted model behind the chat completions of OpenAI: an answer after the other, for one question."""
    left = list(ANSWERS.values())

    class Scripted(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            head = {"id": "1", "created": 0, "model": "scripted"}
            words = {"role": "assistant", "content": left.pop(0)}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            part, kind = (
                ("delta", "chat.completion.chunk")
                if asked.get("stream")
                else (
                    "message",
                    "chat.completion",
                )
            )
            choice = {"index": 0, part: words, "finish_reason": "stop"}
            text = json.dumps({**head, "object": kind, "choices": [choice], "usage": usage})
            is_stream = part == "delta"
            body = (f"data: {text}\n\ndata: [DONE]\n\n" if is_stream else text).encode()
            self.send_response(200)
            self.send_header(
                "Content-Type", "text/event-stream" if is_stream else "application/json"
            )
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_each_kind_of_kernel_gets_the_same_reward_from_the_shared_part(judged: Judged) -> None:
    with PolicyTasks(**judged.settings) as judging:
        (task,) = judging.tasks()
        found = {
            name: judging.score(text, task.definition).reward for name, text in ANSWERS.items()
        }

    assert found == judged.rewards
    assert found["right"] > 0.5
    assert (found["wrong"], found["not building"], found["cheating"]) == (0.1, 0.0, -1.0)
    assert "increment" in task.prompt


def test_prose_without_a_function_is_a_kernel_that_does_not_build(judged: Judged) -> None:
    with PolicyTasks(**judged.settings) as judging:
        found = judging.score("I would rather not.", "increment")

    assert (found.built, found.reward) == (False, 0.0)
    assert "COMPILE_ERROR" in found.feedback
    assert "SyntaxError" in found.feedback


def test_no_verdict_is_an_error_and_never_a_reward(judged: Judged) -> None:
    settings = {**judged.settings, "device": "cuda:99"}

    with (
        PolicyTasks(**settings) as judging,
        pytest.raises(NoVerdictError, match="no verdict \\(device\\)"),
    ):
        judging.score(ANSWERS["right"], "increment")


def test_verifiers_gives_the_rewards_of_the_command_line(judged: Judged, policy: str) -> None:
    vf = pytest.importorskip("verifiers.v1", reason="the extra verifiers is not installed")
    module = "flashinfer_bench_kernels"
    config_type = vf.taskset_config_type(module)
    taskset = vf.load_taskset(config_type(id=module, task={**judged.settings, "self_check": False}))
    agent_config = vf.AgentConfig(
        model="scripted",
        client={"type": "eval", "base_url": policy, "api_key_var": "HOME"},
        harness={"id": "null"},
        runtime={"type": "subprocess"},
    )

    async def run() -> list[object]:
        (task,) = list(taskset)
        async with vf.make_agent(agent_config) as agent:
            return [await agent.run(task) for _ in ANSWERS]

    traces = asyncio.run(run())

    assert [trace.errors for trace in traces] == [[]] * len(ANSWERS)
    assert {n: t.reward for n, t in zip(ANSWERS, traces, strict=True)} == judged.rewards


def scripted_model(*answers: str) -> Any:
    """Inspect's own mock; it says how many tokens it used, or they are counted with a table from the network."""
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    outputs = [ModelOutput.from_content("mockllm/model", each) for each in answers]
    for each in outputs:
        each.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return get_model("mockllm/model", custom_outputs=outputs)


def test_inspect_gives_the_rewards_of_the_command_line(judged: Judged, tmp_path: Path) -> None:
    inspect_ai = pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")
    from flashinfer_bench.rl.adapters.inspect_task import kernels

    task = kernels(**judged.settings, split="train", self_check=False)
    model = scripted_model(*ANSWERS.values())
    logs = [
        inspect_ai.eval(task, model=model, log_dir=str(tmp_path), display="none")[0]
        for _ in ANSWERS
    ]

    assert [log.status for log in logs] == ["success"] * len(ANSWERS)
    scores = [log.samples[0].scores["kernel_reward"].value for log in logs]
    assert dict(zip(ANSWERS, scores, strict=True)) == judged.rewards


def test_inspect_leaves_a_sample_without_a_verdict_out_of_the_mean(
    judged: Judged, tmp_path: Path
) -> None:
    inspect_ai = pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")
    from inspect_ai.dataset import Sample

    from flashinfer_bench.rl.adapters.inspect_task import kernel_reward

    lost = PolicyTasks(judged.dataset, device="cuda:99")
    sample = Sample(input="a kernel", metadata={"definition": "increment"})
    task = inspect_ai.Task(dataset=[sample], scorer=kernel_reward(lost))
    model = scripted_model(ANSWERS["right"])
    (log,) = inspect_ai.eval(task, model=model, log_dir=str(tmp_path), display="none")

    score = log.samples[0].scores["kernel_reward"]
    assert math.isnan(score.value)
    assert "no verdict (device)" in score.explanation


def test_openenv_gives_the_rewards_of_the_command_line(judged: Judged) -> None:
    pytest.importorskip("openenv.core", reason="the extra openenv is not installed")
    import uvicorn
    from openenv.core.generic_client import GenericEnvClient

    from flashinfer_bench.rl.adapters.openenv_server import openenv_app

    with PolicyTasks(**judged.settings) as judging:
        config = uvicorn.Config(
            openenv_app(judging, most_turns=len(ANSWERS)), port=0, log_level="error"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        with GenericEnvClient(base_url=f"http://127.0.0.1:{port}").sync() as client:
            asked = client.reset()
            results = [client.step({"code": each}) for each in ANSWERS.values()]
        server.should_exit = True
        thread.join()

    assert "increment" in asked.observation["prompt"]
    assert {n: each.reward for n, each in zip(ANSWERS, results, strict=True)} == judged.rewards
    assert [each.done for each in results] == [False, False, False, True]
