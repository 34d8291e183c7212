"""Auditing of closed months: digests in the pool's chain, verification from entries and prices."""
