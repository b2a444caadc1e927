"""SparseAdam, which has nothing to work on here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .optimizer import Optimizer, check_betas, check_lr, number


class SparseAdam(Optimizer):
    """Adam for sparse gradients, which jitgrad does not have.

    It can be made, so that programs can be loaded, but a step refuses dense gradients as PyTorch's
    does: use :class:`Adam`.

    Raises:
        ValueError: for options outside their ranges.
        RuntimeError: in ``step``, for a dense gradient.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_lr(lr)
        if not number(lr) > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        complex_ones = [
            [i, j]
            for i, group in enumerate(self.param_groups)
            for j, p in enumerate(group["params"])
            if p.is_complex()
        ]
        if complex_ones:
            raise ValueError(
                f"Complex params at indices {complex_ones}: SparseAdam does not support complex "
                "parameters"
            )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Refuse the first gradient; without any, only the closure is called."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            if any(p.grad is not None for p in group["params"]):
                raise RuntimeError(
                    "SparseAdam does not support dense gradients, please consider Adam instead"
                )
        return loss
