"""A contest's verbs for Python programs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import quote

from flashinfer_bench.data import Definition
from flashinfer_bench.serve.client import LinkedClient
from flashinfer_bench.serve.contest import messages
from flashinfer_bench.serve.links import UnreachableError

if TYPE_CHECKING:
    from flashinfer_bench.data import Solution

_POLL_S = 30.0
_PAUSE_S = 0.5


class ContestClient(LinkedClient):
    """A contest at a URL, for a team or an organiser; raises as `ServiceClient` does."""

    def state(self) -> messages.ContestState:
        """Ask what the contest is."""
        return self._link.get("/contest", messages.ContestState)

    def definition(self, name: str) -> Definition:
        """Fetch a definition."""
        return self._link.get(f"/contest/definitions/{quote(name, safe='')}", Definition)

    def kinds(self) -> list[str]:
        """Name the kinds of devices that evaluate."""
        return self.state().kinds

    def enter(self, solution: Solution) -> messages.EntryState:
        """Enter a solution."""
        body = messages.NewEntry(solution=solution)
        return self._link.post("/contest/entries", body, messages.EntryState)

    def entry(self, entry: str, *, wait_s: float = 0.0) -> messages.EntryState:
        """Ask how far an entry is, or wait so many seconds for its end."""
        path = f"/contest/entries/{quote(entry, safe='')}?timeout={wait_s:g}"
        return self._link.get(path, messages.EntryState, wait_s=wait_s)

    def wait(self, entry: str) -> messages.EntryState:
        """Wait for an entry's end, also over a server that begins anew."""
        while True:
            try:
                state = self.entry(entry, wait_s=_POLL_S)
            except UnreachableError:
                time.sleep(_PAUSE_S)
                continue
            if state.status == "ended":
                return state

    def entries(self) -> messages.EntryList:
        """List a team's entries."""
        return self._link.get("/contest/entries", messages.EntryList)

    def board(self) -> messages.ContestBoard:
        """Ask how teams stand."""
        return self._link.get("/contest/board", messages.ContestBoard)

    def review(self, review: messages.NewReview) -> messages.Review:
        """Accept or reject an entry."""
        return self._link.post("/contest/reviews", review, messages.Review)

    def close(self) -> messages.Closing:
        """Take no more entries; to be asked until it is closed."""
        return messages.Closing.model_validate_json(self._link.ask("POST", "/contest/close"))

    def results(self) -> messages.Results:
        """Fetch all that the ranking follows from."""
        return self._link.get("/contest/results", messages.Results)
