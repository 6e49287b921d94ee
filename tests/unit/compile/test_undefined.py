"""Which line of the sources uses what nothing defines."""

from __future__ import annotations

import pytest

from flashinfer_bench.compile.undefined import with_place
from flashinfer_bench.data import BuildSpec, Solution, SourceFile

SOURCE = """\
// scale is in scale.cu
extern "C" __device__ float scale(float);
__device__ const float *
pick(int);
namespace of { std::vector<int> size(int a); }
int at = of::size(3);
  return scale(pick(1)[0]);
"""


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("k.so: undefined symbol: _Z5scalef", 7),
        ("k.so: undefined symbol: scale", 7),
        ("ptxas fatal   : Unresolved extern function '_ZN2of4sizeEi'", 6),
        ("nvlink error   : Undefined reference to '_Z4picki' in '/tmp/k.o'", 4),
        ("k.cpp:(.text+0xd9): undefined reference to `of::size(int)'", 6),
    ],
)
def test_the_line_that_calls_it_comes_first(words: str, line: int) -> None:
    placed = with_place(solution(), words)

    first, _, rest = placed.partition("\n")
    assert first.startswith(f"./k.cu:{line}: error: undefined reference to '")
    assert rest == words


@pytest.mark.parametrize(
    "words",
    [
        "k.so: undefined symbol: elsewhere",
        "./k.cu:9: undefined reference to `scale'",
        "./k.cu:9: error: what?",
    ],
)
def test_words_that_name_no_symbol_of_the_sources_or_its_line_stay(words: str) -> None:
    assert with_place(solution(), words) == words


def solution() -> Solution:
    spec = BuildSpec.model_validate(
        {"language": "cuda", "target_hardware": ["cuda"], "entry_point": "k.cu::run"}
    )
    sources = [SourceFile(path="k.cu", content=SOURCE)]
    return Solution(name="s", definition="d", author="tester", spec=spec, sources=sources)
