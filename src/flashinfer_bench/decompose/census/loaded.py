"""What most architectures import, loaded once in the server that forks their processes."""

import contextlib
import importlib

for _each in (
    "flashinfer_bench.decompose.census.examining",
    "transformers.models.auto.modeling_auto",
    "transformers.models.clip.modeling_clip",
    "transformers.models.llama.modeling_llama",
    "transformers.models.whisper.modeling_whisper",
    "torchvision",
):
    with contextlib.suppress(ImportError):  # each process says what is missing
        importlib.import_module(_each)
