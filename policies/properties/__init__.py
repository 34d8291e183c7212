"""Properties of fairness, as checks that any decision can be put to."""
