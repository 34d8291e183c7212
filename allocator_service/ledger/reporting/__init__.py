"""What the ledger tells about a stretch of time: every total is a sum over its entries."""
