"""Pools whose policy divides time: re-planning at the end of a slot, deficits that are repaid."""
