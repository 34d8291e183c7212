"""Weighted leximin of shares with divisible tasks.

On one pool it is DRF or asset fairness, and on servers DRFH.
"""
