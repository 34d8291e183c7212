"""Auditing of closed months by digests in the pool's chain and by entries and prices."""
