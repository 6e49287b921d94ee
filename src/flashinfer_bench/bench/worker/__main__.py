"""What a process of ours is started as.

`python -m flashinfer_bench.bench.worker SOCKET FOLDER` serves forks; FOLDER goes at the end.
`python -m flashinfer_bench.bench.worker fresh ROLE CHANNEL REPORT POLICY` is a worker in a container, or below a tool.
"""

import sys
from pathlib import Path

from flashinfer_bench.bench.protocol import Role
from flashinfer_bench.bench.worker.server import serve
from flashinfer_bench.bench.worker.startup import serve_fresh

if __name__ == "__main__":
    if sys.argv[1] == "fresh":
        role: Role = "examined" if sys.argv[2] == "examined" else "candidate"
        serve_fresh(role, int(sys.argv[3]), int(sys.argv[4]), sys.argv[5].encode())
    else:
        serve(int(sys.argv[1]), Path(sys.argv[2]))
