"""Rating of sealed ledger entries by prices into invoice lines."""
