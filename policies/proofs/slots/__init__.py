"""Slots of a time division and the bounds that prices prove of a schedule."""
