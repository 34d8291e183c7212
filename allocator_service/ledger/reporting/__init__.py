"""Reports of the ledger for a period, whose totals are sums over its entries."""
