"""The interior-point method for one round of the leximin."""
