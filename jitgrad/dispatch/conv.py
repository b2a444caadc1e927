"""conv1d to conv3d and their transposes: what users may write, checked and brought to one form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import errors
from ..kernels.conv import Geometry
from ..layout import Layout, image_layout
from ..memory_format import contiguous_format
from ..tensor import Tensor
from .complexes import complex as complex_of_parts
from .composed import Composed
from .convert import clone
from .convolution import CONVOLUTION, TRANSPOSED, Call, convolved, no_bias
from .make import int_argument, ints_argument
from .plans import PlanCache
from .record import Outcome
from .view import permute, squeeze, unsqueeze

FUNCTIONS = (
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution conv_tbc"
)

# How many numbers one number stands for.
_RANKS = {f"{name}{rank}d": rank for name in ("conv", "conv_transpose") for rank in (1, 2, 3)}
_RANKS["convolution"] = 1

_plans = PlanCache()


def _expanded(name: str, argument: str, values: Any, rank: int) -> tuple[int, ...]:
    """One number for each of the weight's spatial dimensions, from one for all or one for each."""
    if not isinstance(values, (tuple, list)):
        values = (int_argument(name, argument, values),) * (
            1 if name == "convolution" else int(name[-2])
        )
    values = ints_argument(name, argument, values)
    if len(values) == 1:
        return values * rank
    if len(values) != rank:
        raise RuntimeError(
            f"expected {argument} to be a single integer value or a list of {rank} values to match "
            f"the convolution dimensions, but got {argument}={list(values)}"
        )
    return values


def _check_types(name: str, input: Any, weight: Any, bias: Any) -> None:
    for argument, value in (("input", input), ("weight", weight), ("bias", bias)):
        if not isinstance(value, Tensor):
            raise errors.argument(name, argument, "Tensor", value)
    a, w, b = input.layout.dtype, weight.layout.dtype, bias.layout.dtype
    if a.plain is not w.plain:
        raise RuntimeError(
            f"Input type (jitgrad.{a.tensor_type}) and weight type (jitgrad.{w.tensor_type}) "
            f"should be the same in {name}()"
        )
    if bias.layout.ndim and a.plain is not b.plain:
        names = [d.tensor_type.removesuffix("Tensor").lower() for d in (a, b)]
        raise RuntimeError(
            f"Input type ({names[0]}) and bias type ({names[1]}) should be the same in {name}()"
        )


def _check_signs(**numbers: Sequence[int]) -> None:
    for name in ("padding", "output_padding"):
        if min(numbers[name], default=0) < 0:
            raise RuntimeError(f"negative {name} is not supported, got {list(numbers[name])}")
    for name in ("stride", "dilation", "groups"):
        if min(numbers[name], default=1) <= 0:
            raise RuntimeError(
                f"{name} should be greater than zero: non-positive {name} is not supported, got "
                f"{list(numbers[name])}"
            )


def _check_channels(x: Layout, w: Layout, bias: Layout, groups: int, transposed: bool) -> None:
    shape, size = list(w.shape), list(x.shape)
    rows = w.shape[1] * groups if transposed else w.shape[0]
    given = "Given transposed=1" if transposed else f"Given groups={groups}"
    if w.shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but "
            f"got weight of size {shape} instead"
        )
    if w.shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size {shape} instead"
        )
    channels = w.shape[0] if transposed else w.shape[1] * groups
    if x.shape[1] != channels:
        raise RuntimeError(
            f"{given}, weight of size {shape}, expected input{size} to have {channels} channels, "
            f"but got {x.shape[1]} channels instead"
        )
    if (bias.ndim and bias.shape != (rows,)) or (bias.ndim == 0 and not bias.wrapped):
        given = "Given transposed=1, weight" if transposed else "Given weight"
        raise RuntimeError(
            f"{given} of size {shape}, expected bias to be 1-dimensional with {rows} elements, but "
            f"got bias of size {list(bias.shape)} instead"
        )
    if 0 in x.shape[2:]:
        raise RuntimeError(
            f"Only zero batch or zero channel inputs are supported, but got input shape: {size}"
        )
    if 0 in w.shape[2:]:
        raise RuntimeError(f"a kernel of size {shape[2:]} has no elements")


def _padding_of(name: str, padding: Any, stride: tuple[int, ...], reach: Sequence[int],
                rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:  # fmt: skip
    """The zeros before and behind each dimension; ``reach`` is a kernel's width less one."""
    if not isinstance(padding, str):
        zeros = _expanded(name, "padding", padding, rank)
        return zeros, zeros
    if padding == "valid":
        return (0,) * rank, (0,) * rank
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}' (it may be 'same' or 'valid')")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    before = tuple(n // 2 for n in reach)
    return before, tuple(n - b for n, b in zip(reach, before, strict=True))


def _checked(name: str, x: Layout, w: Layout, bias: Layout, stride: Any, padding: Any,
             dilation: Any, groups: Any, transposed: bool,
             output_padding: Any) -> Call:  # fmt: skip
    """What a call with operands of these layouts computes."""
    rank = w.ndim - 2
    if rank < 1:
        raise RuntimeError(f"weight should have at least three dimensions, got {list(w.shape)}")
    if isinstance(padding, str) and x.ndim != w.ndim:
        raise RuntimeError(
            f"Expected {w.ndim}-dimensional input for {w.ndim}-dimensional weight {list(w.shape)}, "
            f"but got {x.ndim}-dimensional input of size {list(x.shape)} instead"
        )
    stride = _expanded(name, "stride", stride, rank)
    dilation = _expanded(name, "dilation", dilation, rank)
    extra = _expanded(name, "output_padding", output_padding, rank)
    groups = int_argument(name, "groups", groups)
    kernel = w.shape[2:]
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    before, behind = _padding_of(name, padding, stride, reach, rank)
    _check_signs(
        padding=before, output_padding=extra, stride=stride, dilation=dilation, groups=(groups,)
    )
    _check_channels(x, w, bias, groups, transposed)
    geometry = Geometry(stride, before, dilation, groups)
    sizes = x.shape[2:]
    if transposed:
        if any(e >= s and e >= d for e, s, d in zip(extra, stride, dilation, strict=True)):
            raise RuntimeError(
                "output padding must be smaller than either stride or dilation, but got "
                f"output_padding: {list(extra)} stride: {list(stride)} dilation: {list(dilation)}"
            )
        results = [
            (n - 1) * s - 2 * p + r + e + 1
            for n, s, p, r, e in zip(sizes, stride, before, reach, extra, strict=True)
        ]
        if min(results) <= 0:
            raise RuntimeError(
                f"Given input size per channel: {list(sizes)}. Calculated output size per channel: "
                f"{results}. Output size is too small in {name}()"
            )
        channels = w.shape[1] * groups
    else:
        padded = [n + a + b for n, a, b in zip(sizes, before, behind, strict=True)]
        if any(n <= r for n, r in zip(padded, reach, strict=True)):
            raise RuntimeError(
                f"Calculated padded input size per channel: ({_times(padded)}). Kernel size: "
                f"({_times(r + 1 for r in reach)}). Kernel size can't be greater than actual input "
                "size"
            )
        results = [(n - r - 1) // s + 1 for n, r, s in zip(padded, reach, stride, strict=True)]
        channels = w.shape[0]
    if not x.shape[1]:
        channels = 0  # as PyTorch has it: no channels, no rows
    out = image_layout((x.shape[0], channels, *results), x.dtype, x)
    attributes = {
        "geometry": geometry, "stride": stride, "padding": before, "dilation": dilation,
        "transposed": transposed, "output_padding": extra, "groups": groups,
    }  # fmt: skip
    row = TRANSPOSED if transposed else CONVOLUTION
    return Call(row, out, geometry, transposed, attributes, Outcome((x, w, bias), (out,)))


def _times(sizes: Any) -> str:
    return " x ".join(map(str, sizes))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _convolve(name: str, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any,
              padding: Any, dilation: Any, groups: Any, transposed: bool,
              output_padding: Any) -> Tensor:  # fmt: skip
    given = no_bias() if bias is None else bias
    numbers = (_frozen(stride), _frozen(padding), _frozen(dilation), groups, transposed,
               _frozen(output_padding))  # fmt: skip
    try:
        key = (name, input.layout, weight.layout, given.layout, numbers)
        call = _plans.get(key)
    except (AttributeError, TypeError):
        call = None
    if call is None:
        _check_types(name, input, weight, given)
        if input.is_complex():
            return _of_parts(name, input, weight, bias, *numbers)
        call = _checked(name, input.layout, weight.layout, given.layout, *numbers)
        call = _plans.add(key, call)
    return convolved(input, weight, given, call)


def _of_parts(name: str, input: Tensor, weight: Tensor, bias: Tensor | None,
              *numbers: Any) -> Tensor:  # fmt: skip
    """A complex convolution as three real ones (Gauss's way to multiply)."""
    (a, b), (c, d) = ((x.real, x.imag.resolve_neg()) for x in (input, weight))
    first = _convolve(name, a, c, None, *numbers)
    second = _convolve(name, b, d, None, *numbers)
    both = _convolve(name, a + b, c + d, None, *numbers)
    result = complex_of_parts(first - second, both - first - second)
    if bias is None:
        return result
    return result + bias.reshape(-1, *(1,) * (result.layout.ndim - 2))


def _batched(name: str, rank: int, input: Any) -> bool:
    """Whether an input has a batch dimension; RuntimeError if it has neither form."""
    if not isinstance(input, Tensor):
        raise errors.argument(name, "input", "Tensor", input)
    if input.layout.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got "
            f"input of size: {list(input.layout.shape)}"
        )
    return input.layout.ndim == rank + 2


_DOC = """{title} of [n, channels{sizes}], or of [channels{sizes}].

    Args:
        input: of floats or integers.
        weight: {weight}, of the dtype of ``input``.
        bias: [rows], added to each row of the result.
        stride: steps of the kernel over the {stepped}, one for all dimensions or one for each.
        padding: {padding}
        {more}dilation: steps between the elements of the kernel.
        groups: channels and rows fall into so many groups that see only each other.

    Returns:
        {result}

    Raises:
        RuntimeError: for shapes, dtypes or numbers that do not fit.

    Gradient: {gradient}
    """


def _function(rank: int) -> Callable[..., Tensor]:
    name = f"conv{rank}d"

    def function(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        if _batched(name, rank, input):
            return _convolve(name, input, weight, bias, stride, padding, dilation, groups, False, 0)
        batch = unsqueeze(input, 0)
        return squeeze(function(batch, weight, bias, stride, padding, dilation, groups), 0)

    sizes = ", " + ", ".join("dhw"[3 - rank :])
    function.__name__ = function.__qualname__ = name
    function.__doc__ = _DOC.format(
        title=f"The {rank}-d convolution (in fact the correlation)",
        sizes=sizes,
        weight="[rows, channels / groups, kernel sizes]",
        stepped="input",
        padding="zeros on both sides; or 'valid' (none) or 'same' (as many as keep the size).",
        more="",
        result="[n, rows, ...] of sizes ``(size + 2 * padding - dilation * (kernel - 1) - 1) // "
        "stride + 1``.",
        gradient="the transposed convolution of ``grad`` for ``input``, the correlation of "
        "``input`` with ``grad``\n    for ``weight``, the sum over all but the rows for ``bias``.",
    )
    return function


def _transposed_function(rank: int) -> Callable[..., Tensor]:
    name = f"conv_transpose{rank}d"

    def function(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Tensor:  # fmt: skip
        if isinstance(padding, str):
            raise errors.argument(name, "padding", "tuple of ints", padding)
        if _batched(name, rank, input):
            return _convolve(
                name, input, weight, bias, stride, padding, dilation, groups, True, output_padding
            )
        result = function(
            unsqueeze(input, 0), weight, bias, stride, padding, output_padding, groups, dilation
        )
        return squeeze(result, 0)

    sizes = ", " + ", ".join("dhw"[3 - rank :])
    function.__name__ = function.__qualname__ = name
    function.__doc__ = _DOC.format(
        title=f"The transpose of a {rank}-d convolution, as a linear map,",
        sizes=sizes,
        weight="[channels, rows / groups, kernel sizes]",
        stepped="result",
        padding="so many elements of the result are left out on both sides.",
        more="output_padding: so many more are computed at the end.\n        ",
        result="[n, rows, ...] of sizes ``(size - 1) * stride - 2 * padding + dilation * (kernel "
        "- 1) +\n        output_padding + 1``.",
        gradient="the convolution of ``grad`` for ``input``, the correlation of ``grad`` with "
        "``input`` for\n    ``weight``, the sum over all but the rows for ``bias``.",
    )
    return function


conv1d, conv2d, conv3d = (_function(rank) for rank in (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = (
    _transposed_function(rank) for rank in (1, 2, 3)
)


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """A convolution of as many dimensions as ``input`` and ``weight`` have behind the first two,
    or the transpose of one: see :func:`conv2d` and :func:`conv_transpose2d`."""
    return _convolve("convolution", input, weight, bias, stride, padding, dilation, groups,
                     bool(transposed), output_padding)  # fmt: skip


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """:func:`conv1d` of [time, batch, channels] with a weight [length, channels, outputs].

    Raises:
        RuntimeError: for other dimensions or channels that differ.
    """
    if input.layout.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.layout.ndim != 3:
        raise RuntimeError(
            "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels"
        )
    if input.layout.shape[2] != weight.layout.shape[1]:
        raise RuntimeError(
            "Input dim 2 (input channels) is not == dim 1 in the weight tensor: got "
            f"{input.layout.shape[2]} and {weight.layout.shape[1]}"
        )
    return _TIME_FIRST(input, weight, bias, pad=pad)


def _with_time_last(self: Tensor, weight: Tensor, bias: Tensor, pad: int) -> Tensor:
    result = conv1d(permute(self, (1, 2, 0)), permute(weight, (2, 1, 0)), bias, padding=pad)
    return permute(result, (2, 0, 1))


_TIME_FIRST = Composed(
    "conv_tbc",
    "self weight bias",
    _with_time_last,
    lambda x: clone(x, memory_format=contiguous_format),
)
