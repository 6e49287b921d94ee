"""One benchmark with warm workers serves the tests of a module."""

from __future__ import annotations

import pytest

collect_ignore_glob = ["broken_kernels/*"]

pytest.importorskip("torch", reason="running solutions needs torch")
