"""The arithmetic of proofs: the normal form, what levels cost at given prices, and exact comparisons."""
