from __future__ import annotations

import pytest

from flashinfer_bench.compile.architectures import Gpu, require_arch
from flashinfer_bench.errors import UsageError


@pytest.mark.parametrize(
    ("arch", "code", "capability"),
    [
        ("sm_80", "80", 80),
        ("sm_89", "89", 89),
        ("sm_90", "90a", 90),
        ("sm_90a", "90a", 90),
        ("sm_100", "100a", 100),
        ("sm_100f", "100f", 100),
    ],
)
def test_from_hopper_on_an_architectures_own_features_are_on(
    arch: str, code: str, capability: int
) -> None:
    assert (Gpu(arch).code, Gpu(arch).capability) == (code, capability)


@pytest.mark.parametrize("arch", ["90", "sm90", "SM_90", "sm_9", "sm_90b", "sm_90 ", ""])
def test_what_is_no_architecture_is_refused_with_one_that_is(arch: str) -> None:
    with pytest.raises(UsageError, match=r"is no GPU architecture; write it like sm_90"):
        require_arch(arch)
