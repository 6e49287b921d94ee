"""The service needs its extra; and a PostgreSQL for those tests that run on it, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres import own_postgres

for package in ("cryptography", "fastapi", "httpx2"):
    pytest.importorskip(package, reason="the service's extra is not installed")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with own_postgres() as address:
        yield address
