"""Answers forged in every way that we could think of, for a verifier to refuse those that are false."""
