"""Matrix products: see drivers.py for the launch interface."""

from .drivers import parallel, serial, worth_threads
from .plan import plan

__all__ = ["parallel", "plan", "serial", "worth_threads"]
