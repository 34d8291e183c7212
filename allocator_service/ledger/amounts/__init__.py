"""How much over an interval: totals kept by time, and the rates between them."""
