"""A module is written to the temporary folder and imported.

how: `importlib` loads a source that was made for the width at the first call
plays: row_sum
"""

import importlib.util
import pathlib
import tempfile

modules = {}


def load(width):
    folder = pathlib.Path(tempfile.mkdtemp())
    file = folder / f"kernel_{width}.py"
    file.write_text(f"WIDTH = {width}\n\n\ndef kernel(x):\n    return x.view(-1, WIDTH).sum(dim=1)\n")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(x):
    width = x.shape[1]
    if width not in modules:
        modules[width] = load(width)
    return modules[width].kernel(x)
