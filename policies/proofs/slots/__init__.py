"""What one slot of a time division may run, and what prices prove of a schedule."""
