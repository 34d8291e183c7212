"""Backtests: traces and pools' own histories under several policies, beside each other."""
