"""`python -m flashinfer_bench.bench.worker SOCKET FOLDER`: serve forks; FOLDER goes at the end."""

import sys
from pathlib import Path

from flashinfer_bench.bench.worker.server import serve

if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]))
