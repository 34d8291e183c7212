"""Verification of the whole ledger, with sums from the entries alone."""
