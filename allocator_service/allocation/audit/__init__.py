"""Checking again what is stored: decisions, and what they read from the ledger."""
