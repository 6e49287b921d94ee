"""A language model behind an address that answers as OpenAI's chat completions do."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from flashinfer_bench.errors import DeviceError, MissingPackageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

Message = dict[str, str]
_TRIES = 4
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_SERVER_FAULT = 500
_TOO_MANY = 429
_SHOWN = 300
_HIDDEN = "[key]"


class EndpointError(DeviceError):
    """A model's endpoint did not answer, or not as it should."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a model wrote, and what that took."""

    text: str
    prompt_tokens: int
    completion_tokens: int


class ChatEndpoint:
    """Asks a model; the key is sent to it, and stands in nothing that this gives or raises."""

    def __init__(self, url: str, model: str, key: str | None, *, timeout_s: float) -> None:
        try:
            import httpx2  # noqa: PLC0415  # of an extra
        except ImportError:
            raise MissingPackageError("httpx2", extra="agents", needed_for="generate") from None
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(f"--endpoint {url}: not an address such as http://127.0.0.1:8080/v1")
        if parts.username or parts.password or parts.query:
            raise UsageError("--endpoint: an address without user, password or query, please")
        self.model = model
        self.address = url.rstrip("/").removesuffix("/chat/completions")
        self._key = key
        self._faults = httpx2.HTTPError
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._client = httpx2.Client(headers=headers, timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def ask(self, messages: Sequence[Message]) -> ModelReply:
        """Ask once. Raises `EndpointError` where four tries gave no answer."""
        pause_s = _FIRST_PAUSE_S
        for attempt in range(1, _TRIES + 1):
            why, waits_s = self._tried(messages)
            if isinstance(why, ModelReply):
                return why
            if attempt == _TRIES or waits_s is None:
                raise EndpointError(f"{self.address}: {self.without_key(why)}")
            time.sleep(min(waits_s or pause_s, _LONGEST_PAUSE_S))
            pause_s *= 2
        raise AssertionError("the last try answers or raises")

    def _tried(self, messages: Sequence[Message]) -> tuple[ModelReply | str, float | None]:
        """Try once: the reply, or why there is none and how long to wait; None: trying again helps nothing."""
        body = {"model": self.model, "messages": list(messages)}
        try:
            answer = self._client.post(f"{self.address}/chat/completions", json=body)
        except self._faults as error:
            return f"no answer: {error}", 0.0
        if answer.status_code >= _SERVER_FAULT or answer.status_code == _TOO_MANY:
            after = answer.headers.get("retry-after", "")
            wait_s = float(after) if after.isdigit() else 0.0
            return f"HTTP {answer.status_code}: {answer.text[:_SHOWN]}", wait_s
        if not answer.is_success:
            return f"HTTP {answer.status_code}: {answer.text[:_SHOWN]}", None
        return self._reply(answer)

    def _reply(self, answer: Any) -> tuple[ModelReply | str, float | None]:
        try:
            said = answer.json()
            text = said["choices"][0]["message"]["content"] or ""
            usage = said.get("usage") or {}
            counts = [int(usage.get(f"{each}_tokens", 0)) for each in ("prompt", "completion")]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            return f"no chat completion: {answer.text[:_SHOWN]}", None
        return ModelReply(self.without_key(str(text)), *counts), 0.0

    def without_key(self, text: str) -> str:
        """Hide the key, which an endpoint may send back."""
        return text if self._key is None else text.replace(self._key, _HIDDEN)
