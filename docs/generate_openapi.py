"""Write the service's OpenAPI document to docs/openapi.json."""

from __future__ import annotations

import json
from pathlib import Path

from flashinfer_bench.serve.app import make_app

DOCUMENT = Path(__file__).with_name("openapi.json")


def render() -> str:
    """Make the document; the version is that of the package, and not a part of it."""
    schema = make_app().openapi()
    schema["info"]["version"] = "0"
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(render())
