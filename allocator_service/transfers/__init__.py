"""Pools that move from one installation to another as an archive."""
