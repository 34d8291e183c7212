"""Pools whose policy remembers: steps at the boundaries of intervals, metering, replay."""
