"""The derivatives of every row of the table: backward and forward, first and second order.

Each elementwise row and each structured row is checked against finite differences, with
contiguous, gapped and broadcast inputs. That no row is left out is itself checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.autograd.gradcheck import gradcheck, gradgradcheck
from jitgrad.dispatch.elementwise import functions
from jitgrad.dispatch.record import StructuredNode
from jitgrad.nn import functional as F
from jitgrad.ops.table import ELEMENTWISE, STRUCTURED
from tests.semantics.nn_cases import NN_CASES


def check_all(function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    """First and second derivatives, both ways, against differences."""
    gradcheck(function, inputs, check_forward_ad=True)
    gradgradcheck(function, inputs, check_fwd_over_rev=True)


def sample(shape: Any, low: float, high: float, seed: int, gapped: bool = False) -> Any:
    random = np.random.default_rng(seed)
    wide = (*shape, 2) if gapped else shape
    x = jg.tensor(random.uniform(low, high, wide), dtype=jg.float64)
    return (x.select(-1, 0) if gapped else x).detach().requires_grad_()


# Inputs that are parameters, with the value they are checked at.
PARAMETERS = {("polygamma", "order"): 2.0, ("logit_within", "eps"): 0.01}

DIFFERENTIABLE = [
    name for name, row in ELEMENTWISE.items() if row.grad and not name.startswith("_")
]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name in DIFFERENTIABLE
        for kind in ("plain", "gapped", "broadcast")
        if kind != "broadcast" or len(ELEMENTWISE[name].inputs) > 1
    ],
)
def test_elementwise_row(name: str, kind: str) -> None:
    row = ELEMENTWISE[name]
    shapes = [(2, 3)] * len(row.inputs)
    if kind == "broadcast":
        shapes = [(2, 3), (3,), (2, 1), (), (1,)][: len(shapes)]
    inputs = []
    for number, (which, shape) in enumerate(zip(row.inputs, shapes, strict=True)):
        if which in row.booleans:
            inputs.append(jg.tensor(np.random.default_rng(number).random(shape) > 0.5))
            continue
        if which == "value":
            shape = ()
        x = sample(shape, *row.domain, seed=number, gapped=kind == "gapped")
        if (name, which) in PARAMETERS:
            x = jg.full_like(x, PARAMETERS[name, which])
        inputs.append(x if which in row.grad else x.detach())
    check_all(functions[name], tuple(inputs))


INDEX = jg.tensor([2, 0, 1])
CHUNKS = jg.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
DISTINCT = jg.tensor([[0, 1], [2, 1]])
PLACES = jg.tensor([[0, 1, 0], [1, 1, 0]])


def _written(how: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A write in place, as a function of what was there."""

    def function(x: Any, *others: Any) -> Any:
        y = x.clone()
        how(y, *others)
        return y

    return function


def _positive(x: Any) -> Any:
    """A well-conditioned symmetric matrix that depends on all of ``x``."""
    return x @ x.mT + 2 * jg.eye(x.shape[0], dtype=x.dtype)


def _mixed(results: Any) -> Any:
    """One result that depends on both of a pair."""
    return results[0] * 2 + results[1]


def _lu_solved(x: Any, y: Any, left: bool) -> Any:
    """``x`` as the packed factors of a matrix, whatever they were of."""
    return jg.linalg.lu_solve(x, jg.tensor([2, 3, 3], dtype=jg.int32), y, left=left)


STRUCTURED_CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "contiguous": (lambda x: x.t().contiguous(), [(2, 3)]),
    "copy": (_written(lambda y, s: y.copy_(s)), [(2, 3), (3,)]),
    "zero": (_written(lambda y: y[0].zero_()), [(2, 3)]),
    "fill": (_written(lambda y, v: y[0].fill_(v)), [(2, 3), ()]),
    "view": (lambda x: x.view(3, 2), [(2, 3)]),
    "reshape": (lambda x: x.t().reshape(6), [(2, 3)]),
    "expand": (lambda x: x.expand(2, 3), [(3,)]),
    "permute": (lambda x: x.permute(1, 0), [(2, 3)]),
    "transpose": (lambda x: x.transpose(0, 1), [(2, 3)]),
    "t": (lambda x: x.t(), [(2, 3)]),
    "unsqueeze": (lambda x: x.unsqueeze(1), [(2, 3)]),
    "squeeze": (lambda x: x.squeeze(), [(2, 1, 3)]),
    "squeeze_dim": (lambda x: x.squeeze(1), [(2, 1, 3)]),
    "squeeze_dims": (lambda x: x.squeeze((0, 2)), [(1, 2, 1, 3)]),
    "select": (lambda x: x.select(1, 2), [(2, 3)]),
    "slice": (lambda x: x[:, ::2], [(2, 3)]),
    "diagonal": (lambda x: x.diagonal(1), [(2, 3)]),
    "unfold": (lambda x: x.unfold(0, 2, 1), [(4,)]),
    "as_strided": (lambda x: x.as_strided((2, 2), (1, 1)), [(4,)]),
    "split": (lambda x: x.split(2), [(3, 2)]),
    "unbind": (lambda x: x.unbind(1), [(3, 2)]),
    "mm": (lambda a, b: a.mm(b), [(2, 3), (3, 2)]),
    "bmm": (lambda a, b: a.bmm(b), [(2, 2, 3), (2, 3, 2)]),
    "mv": (lambda a, b: a.mv(b), [(2, 3), (3,)]),
    "dot": (lambda a, b: a.dot(b), [(3,), (3,)]),
    "matmul": (lambda a, b: a @ b, [(2, 1, 2, 3), (3, 2)]),
    "linear": (F.linear, [(2, 3), (2, 3), (2,)]),
    "linear_batched": (F.linear, [(2, 2, 3), (2, 3), (2,)]),
    "linear_no_bias": (F.linear, [(2, 2, 3), (2, 3)]),
    "addmm": (lambda c, a, b: jg.addmm(c, a, b, beta=2, alpha=3), [(2,), (2, 3), (3, 2)]),
    "baddbmm": (jg.baddbmm, [(2, 2), (2, 2, 3), (2, 3, 2)]),
    "cat": (lambda a, b: jg.cat((a, b), 1), [(2, 3), (2, 1)]),
    "stack": (lambda a, b: jg.stack((a, b), 1), [(2, 3), (2, 3)]),
    "sum": (lambda x: x.sum(), [(2, 3)]),
    "sum_dim": (lambda x: x.sum(1, keepdim=True), [(2, 3)]),
    "mean": (lambda x: x.mean(), [(2, 3)]),
    "mean_dim": (lambda x: x.mean(0), [(2, 3)]),
    "prod": (lambda x: x.prod(), [(2, 3)]),
    "prod_dim": (lambda x: x.prod(1), [(2, 3)]),
    "max": (lambda x: x.max(), [(2, 3)]),
    "min": (lambda x: x.min(), [(2, 3)]),
    "max_dim": (lambda x: x.max(1).values, [(2, 3)]),
    "min_dim": (lambda x: x.min(0, keepdim=True).values, [(2, 3)]),
    "amax": (lambda x: x.amax(1), [(2, 3)]),
    "amin": (lambda x: x.amin((0, 1)), [(2, 3)]),
    "var": (lambda x: x.var(1), [(2, 3)]),
    "std": (lambda x: x.std(), [(2, 3)]),
    "norm": (lambda x: x.norm(), [(2, 3)]),
    "norm_3": (lambda x: x.norm(3, 1), [(2, 3)]),
    "logsumexp": (lambda x: x.logsumexp(1), [(2, 3)]),
    "softmax": (lambda x: x.softmax(1), [(2, 3)]),
    "log_softmax": (lambda x: x.log_softmax(0), [(2, 3)]),
    "cumsum": (lambda x: x.cumsum(1), [(2, 3)]),
    "flip": (lambda x: x.flip(1), [(2, 3)]),
    "roll": (lambda x: x.roll(1, 1), [(2, 3)]),
    "rot90": (lambda x: x.rot90(), [(2, 3)]),
    "repeat": (lambda x: x.repeat(2, 2), [(2, 3)]),
    "tril": (lambda x: x.tril(), [(2, 3)]),
    "triu": (lambda x: x.triu(), [(2, 3)]),
    "index": (lambda x: x[:, INDEX], [(2, 3)]),
    "index_put": (_written(lambda y, v: y.index_put_((INDEX,), v)), [(3,), (3,)]),
    "take": (lambda x: x.take(INDEX), [(2, 3)]),
    "put": (lambda x, s: x.put(INDEX, s), [(2, 3), (3,)]),
    "masked_select": (lambda x: x.masked_select(PLACES > 0), [(2, 3)]),
    "masked_scatter": (lambda x, s: x.masked_scatter(PLACES > 0, s), [(2, 3), (6,)]),
    "index_select": (lambda x: x.index_select(1, INDEX), [(2, 3)]),
    "index_add": (lambda x, s: x.index_add(1, INDEX, s), [(2, 3), (2, 3)]),
    "index_copy": (lambda x, s: x.index_copy(1, INDEX, s), [(2, 3), (2, 3)]),
    "index_fill": (lambda x: x.index_fill(1, INDEX[:2], 2.0), [(2, 3)]),
    "index_fill_tensor": (lambda x, v: x.index_fill(1, INDEX[:2], v), [(2, 3), ()]),
    "gather": (lambda x: x.gather(0, PLACES), [(2, 3)]),
    "scatter": (lambda x, s: x.scatter(1, DISTINCT, s), [(2, 3), (2, 3)]),
    "scatter_value": (lambda x: x.scatter(1, PLACES, 2.0), [(2, 3)]),
    "scatter_add": (lambda x, s: x.scatter_add(1, PLACES, s), [(2, 3), (2, 3)]),
    **{
        f"scatter_{how}": (
            lambda x, s, how=how: x.scatter_reduce(1, PLACES, s, how),  # type: ignore[misc]
            [(2, 3), (2, 3)],
        )
        for how in ("sum", "prod", "mean", "amax", "amin")
    },
    "mse_loss": (F.mse_loss, [(2, 3), (2, 3)]),
    "l1_loss": (F.smooth_l1_loss, [(2, 3), (2, 3)]),
    "huber": (F.huber_loss, [(2, 3), (2, 3)]),
    "nll_loss": (
        lambda x: F.nll_loss(x.log_softmax(1), jg.tensor([2, 0])),
        [(2, 3)],
    ),
    "nll_loss2d": (
        lambda x: F.nll_loss(x, jg.tensor([[1, 0], [0, 0], [1, 1]])),
        [(3, 2, 2)],
    ),
    "cross_entropy": (
        lambda x: F.cross_entropy(x, jg.tensor([2, 0])),
        [(2, 3)],
    ),
    "binary_cross_entropy": (
        lambda x: F.binary_cross_entropy(x.sigmoid(), (PLACES > 0).double()),
        [(2, 3)],
    ),
    "binary_cross_entropy_with_logits": (
        lambda x: F.binary_cross_entropy_with_logits(x, (PLACES > 0).double()),
        [(2, 3)],
    ),
    "soft_margin_loss": (
        lambda x: F.soft_margin_loss(x, (PLACES > 0).double() * 2 - 1),
        [(2, 3)],
    ),
    "fill_number": (_written(lambda y: y[0].fill_(2.0)), [(2, 3)]),
    "addmv": (lambda v, m, x: jg.addmv(v, m, x), [(2,), (2, 3), (3,)]),
    "aminmax": (lambda x: _mixed(jg.aminmax(x, dim=1)), [(2, 3)]),
    "as_strided_scatter": (lambda x, y: jg.as_strided_scatter(x, y, (2,), (2,)), [(4,), (2,)]),
    "diagonal_scatter": (lambda x, y: jg.diagonal_scatter(x, y), [(3, 3), (3,)]),
    "select_scatter": (lambda x, y: jg.select_scatter(x, y, 0, 1), [(2, 3), (3,)]),
    "slice_scatter": (lambda x, y: jg.slice_scatter(x, y, 0, 1, 3), [(3, 2), (2, 2)]),
    "diag_embed": (lambda x: jg.diag_embed(x), [(2, 3)]),
    "cummax": (lambda x: jg.cummax(x, 1)[0], [(2, 3)]),
    "cummin": (lambda x: jg.cummin(x, 1)[0], [(2, 3)]),
    "cumprod": (lambda x: jg.cumprod(x, 1), [(2, 3)]),
    "logcumsumexp": (lambda x: jg.logcumsumexp(x, 1), [(2, 3)]),
    "kthvalue": (lambda x: jg.kthvalue(x, 2, 1)[0], [(2, 3)]),
    "median": (lambda x: jg.median(x), [(5,)]),
    "nanmedian": (lambda x: jg.nanmedian(x), [(5,)]),
    "median_dim": (lambda x: jg.median(x, 1)[0], [(2, 3)]),
    "nanmedian_dim": (lambda x: jg.nanmedian(x, 1)[0], [(2, 3)]),
    "mode": (lambda x: jg.mode(x, 1)[0], [(2, 3)]),
    "sort": (lambda x: jg.sort(x, 1)[0], [(2, 3)]),
    "topk": (lambda x: jg.topk(x, 2, 1)[0], [(2, 3)]),
    "nansum": (lambda x: jg.nansum(x, 1), [(2, 3)]),
    "std_mean": (lambda x: _mixed(jg.std_mean(x, 1)), [(2, 3)]),
    "var_mean": (lambda x: _mixed(jg.var_mean(x, 1)), [(2, 3)]),
    "cholesky": (lambda x: jg.linalg.cholesky(_positive(x)), [(3, 3)]),
    "det": (lambda x: jg.linalg.det(x), [(3, 3)]),
    "slogdet": (lambda x: jg.linalg.slogdet(_positive(x))[1], [(3, 3)]),
    "inv": (lambda x: jg.linalg.inv(_positive(x)), [(3, 3)]),
    "solve": (lambda x, y: jg.linalg.solve(_positive(x), y), [(3, 3), (3,)]),
    "qr": (lambda x: jg.linalg.qr(x)[1], [(3, 3)]),
    "svd": (lambda x: jg.linalg.svdvals(x), [(3, 2)]),
    "eigh": (lambda x: jg.linalg.eigvalsh(_positive(x)), [(3, 3)]),
    "multi_margin_loss": (
        lambda x: F.multi_margin_loss(x, INDEX[:2], p=2, reduction="none"),
        [(2, 3)],
    ),
    "multilabel_margin_loss": (
        lambda x: F.multilabel_margin_loss(x, jg.tensor([[0, 2, -1], [1, -1, 0]])),
        [(2, 3)],
    ),
    "cdist": (jg.cdist, [(2, 3), (3, 3)]),
    "pdist": (jg.pdist, [(3, 2)]),
    "cholesky_solve": (lambda b, l: jg.cholesky_solve(b, l), [(2, 2), (2, 2)]),
    "cholesky_inverse": (lambda l: jg.cholesky_inverse(l), [(2, 2)]),
    "pinv": (lambda x: jg.linalg.pinv(x), [(3, 2)]),
    "lu_factor": (lambda x: jg.linalg.lu_factor(x)[0], [(3, 3)]),
    "lu_factor_wide": (lambda x: jg.linalg.lu_factor(x)[0], [(2, 3)]),
    "lu_factor_tall": (lambda x: jg.linalg.lu_factor(x)[0], [(3, 2)]),
    "lu_solve": (lambda x, y: _lu_solved(x, y, left=True), [(3, 3), (3, 2)]),
    "lu_solve_rows": (lambda x, y: _lu_solved(x, y, left=False), [(3, 3), (2, 3)]),
    "triangular_solve": (lambda x, y: _mixed(jg.triangular_solve(x, y)), [(2, 2), (2, 2)]),
    "householder_product": (jg.linalg.householder_product, [(3, 2), (2,)]),
    "ormqr": (jg.ormqr, [(3, 2), (2,), (3, 2)]),
    "linear_cross_entropy": (
        lambda x, w, b: F.linear_cross_entropy(x, w, INDEX, linear_bias=b, options=CHUNKS),
        [(3, 2), (4, 2), (4,)],
    ),
    "linear_cross_entropy_without_bias": (
        lambda x, w: F.linear_cross_entropy(x, w, INDEX, options=CHUNKS),
        [(3, 2), (4, 2)],
    ),
    "lstsq": (lambda x, y: jg.linalg.lstsq(x, y, driver="gels")[:2], [(3, 2), (3, 2)]),
    "complex": (jg.complex, [(2, 3), (3,)]),
    "polar": (jg.polar, [(2, 3), (3,)]),
    "conj": (lambda x, y: jg.complex(x, y).conj() * 1j, [(3,), (3,)]),
    "conj_physical": (lambda x, y: jg.conj_physical(jg.complex(x, y)) * 1j, [(3,), (3,)]),
    "view_as_real": (lambda x, y: jg.view_as_real(jg.complex(x, y)) ** 2, [(3,), (3,)]),
    "view_as_complex": (lambda x: jg.view_as_complex(x.contiguous()) ** 2, [(3, 2)]),
    "neg_view": (lambda x, y: jg.complex(x, y).conj().imag ** 2, [(3,), (3,)]),
    "fft_c2c": (lambda x, y: jg.fft.fft(jg.complex(x, y), norm="ortho"), [(2, 3), (2, 3)]),
    "fft_r2c": (lambda x: jg.fft.rfft(x, 5), [(2, 4)]),
    "fft_r2c_all": (lambda x: jg.fft.ifft(x), [(2, 4)]),
    "fft_c2r": (lambda x, y: jg.fft.irfft2(jg.complex(x, y)), [(2, 3), (2, 3)]),
    "eig": (lambda x: jg.linalg.eigvals(_positive(x)), [(3, 3)]),
}


@pytest.mark.parametrize("gapped", [False, True], ids=["plain", "gapped"])
@pytest.mark.parametrize("name", STRUCTURED_CASES)
def test_structured_row(name: str, gapped: bool) -> None:
    function, shapes = STRUCTURED_CASES[name]
    gapped = gapped and name not in (
        "view",
        "as_strided",
        "as_strided_scatter",
    )  # these are about memory
    inputs = [sample(shape, 0.3, 2.0, seed, gapped) for seed, shape in enumerate(shapes)]
    check_all(function, tuple(inputs))


def rows_of(tensors: Any) -> Iterator[str]:
    """The names of the structured rows in the graphs of some tensors."""
    stack = [x.grad_fn for x in tensors]
    seen = set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, StructuredNode):
            yield node.row.name
        saved = [x for x in node._saved or () if hasattr(x, "next_edges")]
        stack += [*saved, *(edge[0] for edge in node.next_edges if edge is not None)]


# Rows that are not reached by a differentiable function of one's own: random draws have no
# derivative; casts, aliases and set_() are checked where they are tested.
# PyTorch too has no derivative of scatter(reduce=), nor of these factorisations; that of ctc_loss
# is no gradient in the strict sense (it takes its input for normalised), and has none itself.
WITHOUT_CASE = {
    "alias", "set", "to", "scatter_combined", "geqrf", "ldl_factor", "ldl_solve", "ctc_loss",
    "ctc_loss_backward",
}  # fmt: skip


def test_every_structured_row_is_checked() -> None:
    seen = set()
    for function, shapes in (*STRUCTURED_CASES.values(), *NN_CASES.values()):
        inputs = [sample(shape, 0.3, 2.0, seed) for seed, shape in enumerate(shapes)]
        outputs = function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        seen |= set(rows_of(outputs))
        for order in range(2):
            if not any(y.requires_grad for y in outputs):
                break
            seeds = [(y * 0 + 1).detach().requires_grad_() for y in outputs]
            found = jg.autograd.grad(
                [y for y in outputs if y.requires_grad],
                inputs,
                [s for s, y in zip(seeds, outputs, strict=True) if y.requires_grad],
                create_graph=True,
                allow_unused=True,
            )
            outputs = tuple(g for g in found if g is not None)
            seen |= set(rows_of(outputs))
            inputs += seeds if order == 0 else []
    missing = {
        name
        for name, row in STRUCTURED.items()
        if row.grad and not name.startswith("random_") and name not in WITHOUT_CASE
    } - seen
    assert not missing, f"rows without a case in STRUCTURED_CASES: {sorted(missing)}"
