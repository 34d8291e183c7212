"""Checking the whole ledger: its order, its chain of digests, its sums."""
