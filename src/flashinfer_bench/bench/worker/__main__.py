"""What a process of ours is started as.

`python -m flashinfer_bench.bench.worker SOCKET FOLDER` serves forks; FOLDER goes at the end.
`python -m flashinfer_bench.bench.worker contained CHANNEL REPORT POLICY` is a candidate in its container.
"""

import sys
from pathlib import Path

from flashinfer_bench.bench.worker.server import serve
from flashinfer_bench.bench.worker.startup import serve_contained

if __name__ == "__main__":
    if sys.argv[1] == "contained":
        serve_contained(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].encode())
    else:
        serve(int(sys.argv[1]), Path(sys.argv[2]))
