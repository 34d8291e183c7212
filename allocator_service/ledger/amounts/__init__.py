"""How much over an interval, from the totals that are kept while the ledger grows.

Windows and reports read amounts here and nowhere else. The second way, from the entries alone, is in
`ledger.audit`: it reads no total, and is what these are checked by.
"""
