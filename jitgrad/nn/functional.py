"""Functions of neural networks, without state: what the modules of :mod:`jitgrad.nn` call."""

from __future__ import annotations
