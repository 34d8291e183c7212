"""The allocation service: a Django project and its domain apps."""

__version__ = "0.1.0"
