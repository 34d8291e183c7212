"""Arithmetic of proofs, with the normal form, costs of levels at prices, and exact comparisons."""
