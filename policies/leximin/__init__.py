"""Divisible tasks: the weighted leximin of shares, on one pool (DRF, asset) and on servers (DRFH)."""
