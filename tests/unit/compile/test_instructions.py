"""Instructions by kind, in SASS as `cuobjdump` prints it and in PTX as nvcc and Triton write it."""

from __future__ import annotations

import pytest

from flashinfer_bench.compile.instructions import (
    InstructionCounts,
    counted_in_ptx,
    counted_in_sass,
)

SASS = """
	code for sm_90
		Function : _Z5scalePf
	.headerflags	@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;      /* 0x00000a00ff017b82 */
                                                               /* 0x000fe20000000800 */
        /*0010*/               @P0 LDG.E.128 R4, desc[UR4][R2.64] ;  /* 0x000000 */
        /*0020*/              @!P1 LDS.U R0, [R6] ;            /* 0x000000 */
        /*0030*/                   STL [R1], R3 ;              /* 0x000000 */
        /*0040*/                   LDL R3, [R1] ;              /* 0x000000 */
        /*0050*/                   HMMA.16816.F32.BF16 R4, R8, R10, R4 ; /* 0x000000 */
        /*0060*/                   HFMA2.MMA R4, R8, R10, R4 ; /* 0x000000 */
        /*0070*/                   FFMA R4, R8, R10, R4 ;      /* 0x000000 */
        /*0080*/                   F2FP.BF16.F32.PACK_AB R4, R8, R10 ; /* 0x000000 */
        /*0090*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ; /* 0x000000 */
        /*00a0*/             @!UP0 BRA.U 0x10 ;                /* 0x000000 */
        /*00b0*/                   STG.E desc[UR4][R2.64], R4 ; /* 0x000000 */
        /*00c0*/                   EXIT ;                      /* 0x000000 */
        /*00d0*/                   BRA 0xd0;                   /* 0x000000 */
        /*00e0*/                   NOP;                        /* 0x000000 */
		..........

		Function : other
        /*0000*/                   LDGSTS.E [R1], desc[UR4][R2.64] ; /* 0x000000 */
        /*0010*/                   EXIT ;                      /* 0x000000 */
"""
PTX = """
// ld.global.f32 in a comment;
.func (.param .b32 out) helper() { ld.global.f32 %f1, [%rd1]; ret; }
.visible .entry _Z5scalePf(
	.param .u64 _Z5scalePf_param_0
)
{
	.reg .pred 	%p<2>;
	.loc	1 36 28
	ld.param.u64 	%rd1, [_Z5scalePf_param_0];
	@%p1 bra 	$L__BB0_2;
	{ // callseq 0, 0
	call.uni (retval0), helper, (
	param0
	);
	} // callseq 0
$L__BB0_2:
	@%p2 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
	st.shared.f32 	[%r21], %f32;
	cp.async.bulk.shared::cluster.global [%r1], [%rd2], 16;
	cp.async.bulk.commit_group;
	cvta.to.global.u64 %rd3, %rd1;
	cvt.rn.bf16.f32 %rs1, %f1;
	mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %f1 }, { %r1 }, { %r2 }, { %f1 };
	bar.sync 	0;
	st.volatile.global.f32 	[%rd5], %f37;
	ret;
}
"""


def test_sass_is_counted_by_kind_without_padding() -> None:
    found = counted_in_sass(SASS)

    assert found == {
        "_Z5scalePf": InstructionCounts(
            assembly="sass",
            total=13,
            global_loads=1,
            global_stores=1,
            shared_loads=1,
            local_loads=1,
            local_stores=1,
            mma=1,
            fma=2,
            conversions=1,
            barriers=1,
            branches=1,
        ),
        "other": InstructionCounts(assembly="sass", total=2, async_copies=1),
    }


def test_ptx_is_counted_by_kind_kernels_only() -> None:
    assert counted_in_ptx(PTX) == {
        "_Z5scalePf": InstructionCounts(
            assembly="ptx",
            total=13,
            global_loads=1,
            global_stores=1,
            shared_stores=1,
            async_copies=1,
            mma=1,
            conversions=1,
            barriers=1,
            branches=2,
        )
    }


@pytest.mark.parametrize(
    "text", ["", "Function : ", ".entry broken(", ".entry broken() { ld.global"]
)
def test_what_is_no_code_holds_no_instruction(text: str) -> None:
    assert all(each.total == 0 for each in counted_in_sass(text).values())
    assert all(each.total == 0 for each in counted_in_ptx(text).values())
