"""Intake of the ledger, with reported usage, corrections and the sealer."""
