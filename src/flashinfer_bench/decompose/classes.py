"""What sort of work an operation is: one table from its name to a class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from flashinfer_bench.decompose.ir import Op, OpTrace, Ref

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Class = Literal[
    "VIEW", "GEN", "HEAVY", "NORM", "POOL", "RED", "MOVE", "EW", "CAST", "RNG", "OPAQUE"
]
"""VIEW and GEN are plumbing; OPAQUE is what the table does not know and whose shape says nothing."""
CLASSES: tuple[Class, ...] = get_args(Class)

NAMES: Mapping[Class, str] = {
    "VIEW": """
        view reshape flatten unflatten ravel permute transpose t T mT H mH adjoint swapaxes swapdims movedim
        moveaxis squeeze unsqueeze expand expand_as broadcast_to broadcast_tensors narrow select slice chunk
        split split_with_sizes unsafe_split unsafe_chunk tensor_split hsplit vsplit dsplit unbind contiguous
        detach clone alias view_as reshape_as view_as_real view_as_complex real imag diagonal as_strided
        atleast_1d atleast_2d atleast_3d unfold_view _unsafe_view _reshape_alias lift_fresh lift_fresh_copy
        meshgrid cpu cuda data positive requires_grad pin_memory unsafe_split_with_sizes resolve_conj""",
    "GEN": """
        zeros ones full empty arange linspace logspace eye zeros_like ones_like full_like empty_like new_zeros
        new_ones new_full new_empty new_tensor tensor as_tensor scalar_tensor tril_indices triu_indices range
        empty_strided hann_window hamming_window blackman_window bartlett_window kaiser_window from_numpy""",
    "HEAVY": """
        linear matmul mm bmm addmm baddbmm addbmm mv addmv dot vdot inner einsum tensordot bilinear chain_matmul
        multi_dot kron cdist conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d
        conv_transpose3d conv_tbc scaled_dot_product_attention multi_head_attention_forward rnn_tanh rnn_relu
        gru lstm rnn_tanh_cell rnn_relu_cell gru_cell lstm_cell fft ifft rfft irfft fft2 ifft2 rfft2 irfft2
        fftn ifftn rfftn irfftn hfft ihfft stft istft inv pinv solve svd eig eigh qr cholesky det slogdet
        lstsq matrix_exp matrix_power solve_triangular lu lu_factor inverse pinverse
        _scaled_dot_product_flash_attention_for_cpu""",
    "NORM": """
        batch_norm layer_norm group_norm instance_norm rms_norm local_response_norm softmax log_softmax softmin
        normalize gumbel_softmax native_layer_norm native_batch_norm native_group_norm _softmax _log_softmax
        _native_batch_norm_legit _native_batch_norm_legit_functional cudnn_batch_norm _fused_rms_norm renorm
        weight_norm _weight_norm""",
    "POOL": """
        max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d lp_pool3d
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
        adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d max_pool1d_with_indices
        max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool1d_with_indices
        adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices _adaptive_avg_pool2d
        _adaptive_avg_pool3d""",
    "RED": """
        sum mean prod amax amin aminmax argmax argmin max min median nanmedian nansum nanmean mode
        std var std_mean var_mean norm vector_norm matrix_norm logsumexp all any count_nonzero cumsum cumprod
        cummax cummin logcumsumexp topk sort argsort kthvalue msort trace quantile nanquantile
        searchsorted bucketize histc bincount cosine_similarity pairwise_distance dist pdist nll_loss
        cross_entropy mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy
        binary_cross_entropy_with_logits hinge_embedding_loss margin_ranking_loss triplet_margin_loss
        triplet_margin_with_distance_loss cosine_embedding_loss ctc_loss poisson_nll_loss gaussian_nll_loss
        multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss soft_margin_loss nll_loss2d
        diff unique unique_consecutive cross trapezoid trapz""",
    "MOVE": """
        cat concat concatenate stack hstack vstack dstack column_stack pad constant_pad_nd roll flip fliplr
        flipud rot90 gather scatter scatter_add scatter_reduce index_select index_add index_copy index_fill
        index_put index take take_along_dim masked_select masked_scatter tril triu diag diagflat
        diag_embed block_diag embedding embedding_bag repeat tile repeat_interleave one_hot unfold fold
        im2col col2im pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle interpolate
        upsample upsample_nearest upsample_bilinear grid_sample affine_grid nonzero argwhere combinations
        cartesian_prod put slice_scatter select_scatter diagonal_scatter as_strided_scatter setitem
        reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d vander""",
    "EW": """
        add sub mul div floor_divide remainder fmod pow neg abs sign exp exp2 expm1 log log2 log10 log1p sqrt
        rsqrt square reciprocal sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc
        erfinv sigmoid logit logsigmoid log_sigmoid relu relu6 leaky_relu prelu elu selu celu gelu silu mish
        hardswish hardsigmoid hardtanh hardshrink softplus softshrink softsign tanhshrink threshold glu clamp
        clamp_min clamp_max clip floor ceil round trunc frac maximum minimum fmax fmin where
        masked_fill eq ne lt le gt ge isnan isinf isfinite logical_and logical_or logical_not
        logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not lshift rshift addcmul addcdiv lerp
        nan_to_num copysign hypot heaviside sgn logaddexp logaddexp2 outer ger fill copy digamma lgamma
        xlogy polar complex angle conj isclose zero bitwise_left_shift bitwise_right_shift sinc deg2rad rad2deg
        ldexp float_power true_divide""",
    "CAST": """
        to type type_as float double half bfloat16 int long short bool char byte _to_copy cfloat
        convert_element_type""",
    "RNG": """
        dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout native_dropout bernoulli rand
        randn randint randperm rand_like randn_like randint_like normal uniform multinomial poisson rrelu
        exponential cauchy geometric log_normal random""",
}
TABLE: Mapping[str, Class] = {name: cls for cls, names in NAMES.items() for name in names.split()}

_DUNDERS = {
    "truediv": "div",
    "true_divide": "div",
    "divide": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "multiply": "mul",
    "subtract": "sub",
    "negative": "neg",
    "absolute": "abs",
    "invert": "bitwise_not",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "concat": "cat",
    "concatenate": "cat",
    "clip": "clamp",
    "expit": "sigmoid",
    "special_expit": "sigmoid",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
    "arctan": "atan",
    "arctan2": "atan2",
    "log_sigmoid": "logsigmoid",
    "swapaxes": "transpose",
    "special_logsumexp": "logsumexp",
    "special_softmax": "softmax",
    "special_log_softmax": "log_softmax",
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "native_batch_norm": "batch_norm",
    "_native_batch_norm_legit": "batch_norm",
    "_native_batch_norm_legit_functional": "batch_norm",
    "native_dropout": "dropout",
    "_to_copy": "to",
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d",
    "_adaptive_avg_pool3d": "adaptive_avg_pool3d",
}
_REVERSED = frozenset(
    {"radd", "rmul", "rsub", "rtruediv", "rdiv", "rfloordiv", "rpow", "rmod", "rmatmul"}
    | {"rand", "ror", "rxor"}
)


def key(fn: str) -> str:
    """Name an operation regardless of how it was written.

    >>> key("torch.Tensor.__rtruediv__"), key("torch.Tensor.add_"), key("torch.ops.aten.addmm.default")
    ('div', 'add', 'addmm')
    """
    parts = fn.split(".")
    if fn.startswith("torch.ops.") and len(parts) > 4:  # noqa: PLR2004  # torch.ops.aten.add.Tensor
        parts = parts[:4]
    if parts[-1] in ("__get__", "__call__"):  # a property: torch.Tensor.T.__get__
        parts.pop()
    name = parts[-1]
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        if name in _REVERSED:
            name = name[1:]
        if name.startswith("i") and name[1:] in _IN_PLACE:
            name = name[1:]
    elif name.endswith("_"):
        name = name.rstrip("_")
    name = _DUNDERS.get(name, name)
    # The method is a view of windows; the function copies them into columns.
    return "unfold_view" if fn == "torch.Tensor.unfold" else name


_IN_PLACE = {
    *("add", "sub", "mul", "truediv", "div", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"),
    *("lshift", "rshift"),
}  # fmt: skip


def is_reversed(fn: str) -> bool:
    """Tell `2 - x`, which Python hands to the tensor, from `x - 2`."""
    name = fn.rsplit(".", 1)[-1].strip("_")
    return fn.endswith("__") and name in _REVERSED


def classify(trace: OpTrace, op: Op) -> Class:
    """Say what sort of work an operation of a trace is."""
    name = key(op.fn)
    if op.is_stochastic:
        return "RNG"
    decide = _DECIDED.get(name)
    if decide is not None:
        return decide(trace, op)
    known = TABLE.get(name)
    if known is not None:
        return "EW" if known == "RNG" and _is_quiet(op) else known
    return "EW" if _has_broadcast_shape(trace, op) else "OPAQUE"


def _is_quiet(op: Op) -> bool:
    """Whether an operation that could draw numbers does not: dropout outside training."""
    return bool(op.ins) and op.is_train is False


def _getitem(_: OpTrace, op: Op) -> Class:
    return "MOVE" if any(map(_is_tensor_index, op.args[1:])) else "VIEW"


def _is_tensor_index(index: Any) -> bool:
    """Whether an index gathers (a tensor or a list) and is no slice, number, none or ellipsis."""
    match index:
        case Ref() | list():
            return True
        case tuple():
            return any(map(_is_tensor_index, index))
        case _:
            return False


def _maximum(_: OpTrace, op: Op) -> Class:
    other = op.args[1] if len(op.args) > 1 else op.kwargs.get("other")
    return "EW" if isinstance(other, Ref) else "RED"


def _cast(trace: OpTrace, op: Op) -> Class:
    """A cast that changes nothing but the place, or nothing at all, is plumbing."""
    source = trace.values[op.ins[0]] if op.ins else None
    made = trace.values[op.outs[0]] if op.outs else None
    if source is None or made is None:
        return "CAST"
    return "VIEW" if source.dtype == made.dtype else "CAST"


def _tensor(_: OpTrace, op: Op) -> Class:
    """`torch.tensor` of plain numbers is a factory; of tensors, a copy."""
    return "VIEW" if op.ins else "GEN"


def _where(_: OpTrace, op: Op) -> Class:
    """`where` with a condition alone lists positions; with three it chooses."""
    return "MOVE" if len(op.args) + len(op.kwargs) == 1 else "EW"


def _einsum(_: OpTrace, op: Op) -> Class:
    """Without a summed index it is a product of elements: `i,j->ij`."""
    equation = op.args[0] if op.args and isinstance(op.args[0], str) else ""
    given, arrow, made = equation.replace(" ", "").partition("->")
    is_outer = bool(arrow) and set(given) - set(",.") <= set(made)
    return "EW" if is_outer else "HEAVY"


_DECIDED: Mapping[str, Callable[[OpTrace, Op], Class]] = {
    "getitem": _getitem,
    "max": _maximum,
    "min": _maximum,
    "where": _where,
    "einsum": _einsum,
    "tensor": _tensor,
    "as_tensor": _tensor,
    **dict.fromkeys(NAMES["CAST"].split(), _cast),
}


def _has_broadcast_shape(trace: OpTrace, op: Op) -> bool:
    """Whether the only output has the shape to which the inputs broadcast."""
    shapes = [trace.values[value].shape for value in op.ins]
    if len(op.outs) != 1 or not shapes:
        return False
    return broadcast(shapes) == trace.values[op.outs[0]].shape


def broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Shape to which some shapes broadcast; none when they do not."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    merged = tuple(_merge(sizes) for sizes in zip(*padded, strict=True))
    return None if -1 in merged else merged


def _merge(sizes: tuple[int, ...]) -> int:
    wide = {size for size in sizes if size != 1}
    match len(wide):
        case 0:
            return 1
        case 1:
            return wide.pop()
        case _:
            return -1


def argument(op: Op, place: int, name: str, default: Any = None) -> Any:
    """An argument of an operation, given by place or by name."""
    return op.args[place] if len(op.args) > place else op.kwargs.get(name, default)
