"""The Django project of the allocation service, with its domain apps."""

__version__ = "0.1.0"
