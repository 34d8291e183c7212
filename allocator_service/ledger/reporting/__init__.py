"""Reports of the ledger about a period: every total is a sum over its entries."""
