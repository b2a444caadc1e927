"""jitgrad: tensors with PyTorch's autograd semantics on kernels compiled by Numba.

>>> import jitgrad as jg
>>> x = jg.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4., 6.])
"""

from __future__ import annotations

from math import e, inf, nan, pi

from . import autograd as autograd
from . import func as func
from . import legacy as _legacy
from .autograd.anomaly import (
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_anomaly_enabled,
)
from .autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .dispatch import average_pooling as _average_pooling
from .dispatch import complexes as _complexes
from .dispatch import conv as _conv
from .dispatch import diagonals as _diagonals
from .dispatch import embedding as _embedding
from .dispatch import factorize as _factorize
from .dispatch import facts as _facts
from .dispatch import grid_sampling as _grid_sampling
from .dispatch import histogram as _histogram
from .dispatch import index as _index
from .dispatch import interchange as _interchange
from .dispatch import linalg as _linalg
from .dispatch import lu as _lu
from .dispatch import max_pooling as _max_pooling
from .dispatch import methods as _methods
from .dispatch import normalization as _normalization
from .dispatch import orthogonal as _orthogonal
from .dispatch import padding as _padding
from .dispatch import positions as _positions
from .dispatch import rearrange as _rearrange
from .dispatch import rows as _rows
from .dispatch import running as _running
from .dispatch import scatter as _scatter
from .dispatch import segments as _segments
from .dispatch import shuffling as _shuffling
from .dispatch import sorting as _sorting
from .dispatch import special as _special
from .dispatch import split as _split
from .dispatch import statistics as _statistics
from .dispatch import stft as _stft
from .dispatch.arithmetic import (
    add,
    addcdiv,
    addcmul,
    allclose,
    clamp,
    div,
    equal,
    isclose,
    positive,
    rsub,
    sub,
    where,
)
from .dispatch.convert import clone
from .dispatch.creation import (
    arange,
    as_tensor,
    asarray,
    empty,
    empty_like,
    empty_permuted,
    empty_strided,
    eye,
    from_numpy,
    full,
    full_like,
    is_tensor,
    linspace,
    logspace,
    numel,
    ones,
    ones_like,
    scalar_tensor,
    tensor,
    zeros,
    zeros_like,
)
from .dispatch.creation import range_ as _range
from .dispatch.elementwise import functions as _functions
from .dispatch.lines import cumsum, log_softmax, softmax
from .dispatch.matmul import addmm, addmv, baddbmm, bmm, dot, matmul, mm, mv, outer
from .dispatch.random import (
    Generator,
    bernoulli,
    binomial,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    multinomial,
    normal,
    poisson,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
    seed,
    set_rng_state,
)
from .dispatch.reduction import all_ as all
from .dispatch.reduction import (
    amax,
    amin,
    argmax,
    argmin,
    logsumexp,
    max,
    mean,
    min,
    norm,
    prod,
    std,
    sum,
    var,
)
from .dispatch.reduction import any_ as any
from .dispatch.shape import (
    broadcast_tensors,
    cat,
    column_stack,
    dstack,
    hstack,
    stack,
    vstack,
)
from .dispatch.shape import shapes_broadcast as broadcast_shapes
from .dispatch.view import (
    adjoint,
    as_strided,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_to,
    detach,
    diagonal,
    flatten,
    movedim,
    narrow,
    permute,
    ravel,
    reshape,
    select,
    squeeze,
    swapaxes,
    t,
    transpose,
    unflatten,
    unsqueeze,
)
from .dtypes import (
    bfloat16,
    can_cast,
    complex64,
    complex128,
    dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .dtypes import (
    bool_ as bool,
)
from .kernels.threads import get_num_threads, set_num_threads
from .memory_format import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    memory_format,
    preserve_format,
)
from .ops.table import ELEMENTWISE as _ELEMENTWISE
from .printing import set_printoptions
from .state import (
    get_default_dtype,
    is_grad_enabled,
    is_warn_always_enabled,
    set_default_dtype,
    set_warn_always,
)
from .tensor import Size, Tensor, device
from .typeinfo import (
    finfo,
    iinfo,
    is_complex,
    is_floating_point,
    result_type,
)

from . import _C as _C  # isort: skip
from . import array_api as array_api  # isort: skip
from . import linalg as linalg, nn as nn, optim as optim  # isort: skip
from . import amp as amp  # isort: skip
from .amp import autocast, get_autocast_dtype, is_autocast_enabled  # isort: skip
from . import special as special, utils as utils  # isort: skip
from . import serialization as serialization  # isort: skip
from . import fft as fft, masked as masked, signal as signal  # isort: skip

# (packages of operators, which come first)
from .serialization import load, save  # isort: skip
from .settings import *  # isort: skip
from .signal.periodic import *  # isort: skip
from .func import vmap as vmap  # isort: skip
from .func.control_flow import cond, while_loop  # isort: skip
from . import random as random  # isort: skip
from .nn.functional import (  # isort: skip
    bilinear,
    celu,
    celu_,
    cosine_similarity,
    hardshrink,
    pairwise_distance,
    prelu,
    rrelu,
    rrelu_,
    selu,
    selu_,
    threshold,
    threshold_,
)
from .nn import native as _native  # isort: skip
from .nn._recurrent import (  # isort: skip
    gru,
    gru_cell,
    lstm,
    lstm_cell,
    rnn_relu,
    rnn_relu_cell,
    rnn_tanh,
    rnn_tanh_cell,
)

float = float32
double = float64
long = int64
int = int32
short = int16
half = float16
cfloat = complex64
cdouble = complex128

concat = concatenate = cat
row_stack = vstack
subtract = sub
divide = true_divide = div
clip = clamp
swapdims = transpose
moveaxis = movedim
ger = outer
range = _range

is_inference = Tensor.is_inference

for _name, _row in _ELEMENTWISE.items():
    for _public in (_name, *_row.aliases) if _row.method else ():
        globals().setdefault(_public, _functions[_name])

globals().update(_legacy.TYPES)
globals().update({_name: getattr(Tensor, _name) for _name in _legacy.INPLACE.split()})

for _module in (
    _average_pooling,
    _complexes,
    _conv,
    _diagonals,
    _embedding,
    _facts,
    _factorize,
    _histogram,
    _grid_sampling,
    _index,
    _interchange,
    _linalg,
    _lu,
    _max_pooling,
    _native,
    _normalization,
    _orthogonal,
    _padding,
    _positions,
    _rearrange,
    _rows,
    _running,
    _scatter,
    _segments,
    _shuffling,
    _sorting,
    _special,
    _split,
    _statistics,
    _stft,
):
    for _public in _module.FUNCTIONS.split():
        globals()[_public] = getattr(_module, _public)

for _module in (_factorize, _lu, _orthogonal):
    globals().update(_module.METHODS_BY_NAME)

newaxis = None
strided = "strided"
__version__ = "0.1.0"
