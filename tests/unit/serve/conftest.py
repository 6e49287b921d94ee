"""The service needs its extra."""

from __future__ import annotations

import pytest

for package in ("fastapi", "httpx2"):
    pytest.importorskip(package, reason="the service's extra is not installed")
