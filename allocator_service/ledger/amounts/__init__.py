"""Amounts in intervals, from totals that are maintained while the ledger grows.

Windows and reports read amounts only here. `ledger.audit` computes them a second time from the
entries alone, to check these.
"""
