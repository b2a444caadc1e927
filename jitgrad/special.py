"""Special functions under the names of :mod:`torch.special`."""

from __future__ import annotations

from .dispatch import special as _special
from .dispatch.elementwise import functions as _functions
from .dispatch.lines import log_softmax, softmax
from .dispatch.reduction import logsumexp
from .dispatch.special import logit, polygamma, xlog1py, xlogy, zeta
from .dispatch.special import mvlgamma as multigammaln

# The names of rows; where the name here is another one, it comes first.
_ROWS = (
    "digamma psi=digamma gammaln=lgamma erf erfc erfcx erfinv exp2 expm1 expit=sigmoid log1p sinc "
    "round entr ndtr ndtri log_ndtr i0 i0e i1 i1e gammainc=igamma gammaincc=igammac airy_ai "
    "bessel_j0 bessel_j1 bessel_y0 bessel_y1 spherical_bessel_j0 modified_bessel_k0=k0 "
    "modified_bessel_k1=k1 scaled_modified_bessel_k0=k0e scaled_modified_bessel_k1=k1e"
)
for _name in _ROWS.split():
    _public, _, _row = _name.partition("=")
    globals()[_public] = _functions[_row or _public]
globals().update(_special.polynomials)
modified_bessel_i0, modified_bessel_i1 = (_special.without_gradient(n) for n in ("i0", "i1"))

__all__ = [  # and the names of the rows and polynomials above
    "log_softmax", "logsumexp", "softmax", "logit", "polygamma", "xlog1py", "xlogy", "zeta",
    "multigammaln", "modified_bessel_i0", "modified_bessel_i1",
]  # fmt: skip
