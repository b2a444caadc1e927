"""Mixed precision, under PyTorch's names: loss scaling; automatic casts are not there yet."""

from __future__ import annotations

from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler
