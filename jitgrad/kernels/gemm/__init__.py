"""Matrix products: see drivers.py for the launch interface."""

from .drivers import parallel, serial, worth_threads

__all__ = ["parallel", "serial", "worth_threads"]
