"""Allocation of whole tasks one at a time.

It fills one pool, real servers (also by MRFS), or static partitions.
"""
