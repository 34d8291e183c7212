"""Checking the whole ledger: its order, its chain of digests, and its sums from the entries alone."""
