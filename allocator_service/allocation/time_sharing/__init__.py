"""Replanning and repaid deficits of pools whose policy divides time."""
