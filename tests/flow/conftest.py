"""One benchmark with warm workers serves the tests of a module."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="running solutions needs torch")
