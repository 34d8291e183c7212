"""Side-by-side measurements, each with sizes, the times of both sides and their ratio."""
