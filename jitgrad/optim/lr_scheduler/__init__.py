"""Schedules of learning rates, under PyTorch's names.

>>> import jitgrad as jg
>>> p = jg.nn.Parameter(jg.ones(1))
>>> optimizer = jg.optim.SGD([p], lr=1.0)
>>> schedule = jg.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
>>> for epoch in range(3):
...     optimizer.step()
...     schedule.step()
...     print(schedule.get_last_lr())
[1.0]
[0.1]
[0.1]
"""

from __future__ import annotations

from ._base import LRScheduler, _LRScheduler
from ._combined import ChainedScheduler, SequentialLR
from ._cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from ._cycles import CyclicLR, OneCycleLR
from ._factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from ._plateau import ReduceLROnPlateau
