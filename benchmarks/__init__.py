"""Side-by-side measurements: each prints sizes, both sides and the ratio."""
