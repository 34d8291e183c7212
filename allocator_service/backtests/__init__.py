"""Backtests of policies on traces and on pools' own histories."""
