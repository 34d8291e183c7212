"""Verification of stored decisions and of what they read from the ledger."""
