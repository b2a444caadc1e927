"""Named results of functions that return several tensors: tuples whose items have names."""

from __future__ import annotations

from typing import Any


def _named(name: str, *fields: str) -> type:
    """A class of tuples with the given fields."""

    def show(self: Any) -> str:
        items = ",\n".join(f"{field}={item!r}" for field, item in zip(fields, self, strict=True))
        return f"jitgrad.return_types.{name}(\n{items})"

    def item(index: int, field: str) -> property:
        return property(lambda self: tuple.__getitem__(self, index), doc=f"The {field}.")

    members: dict[str, Any] = {field: item(i, field) for i, field in enumerate(fields)}
    return type(
        name,
        (tuple,),
        {
            "__slots__": (),
            "__match_args__": fields,
            "__module__": __name__,
            "__repr__": show,
            "__doc__": f"The results of :func:`jitgrad.{name}`: {', '.join(fields)}.",
            **members,
        },
    )


max = _named("max", "values", "indices")
min = _named("min", "values", "indices")
cummax = _named("cummax", "values", "indices")
cummin = _named("cummin", "values", "indices")
aminmax = _named("aminmax", "min", "max")
sort = _named("sort", "values", "indices")
topk = _named("topk", "values", "indices")
kthvalue = _named("kthvalue", "values", "indices")
median = _named("median", "values", "indices")
nanmedian = _named("nanmedian", "values", "indices")
mode = _named("mode", "values", "indices")
frexp = _named("frexp", "mantissa", "exponent")
slogdet = _named("slogdet", "sign", "logabsdet")
linalg_eigh = _named("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_eig = _named("linalg_eig", "eigenvalues", "eigenvectors")
linalg_svd = _named("linalg_svd", "U", "S", "Vh")
linalg_qr = _named("linalg_qr", "Q", "R")
qr = _named("qr", "Q", "R")
svd = _named("svd", "U", "S", "V")
linalg_inv_ex = _named("linalg_inv_ex", "inverse", "info")
linalg_solve_ex = _named("linalg_solve_ex", "result", "info")
linalg_cholesky_ex = _named("linalg_cholesky_ex", "L", "info")
linalg_lu = _named("linalg_lu", "P", "L", "U")
lu_unpack = _named("lu_unpack", "P", "L", "U")
linalg_lu_factor = _named("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex = _named("linalg_lu_factor_ex", "LU", "pivots", "info")
linalg_ldl_factor = _named("linalg_ldl_factor", "LD", "pivots")
linalg_ldl_factor_ex = _named("linalg_ldl_factor_ex", "LD", "pivots", "info")
triangular_solve = _named("triangular_solve", "solution", "cloned_coefficient")
geqrf = _named("geqrf", "a", "tau")
linalg_lstsq = _named("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
histogram = _named("histogram", "hist", "bin_edges")
histogramdd = _named("histogramdd", "hist", "bin_edges")
