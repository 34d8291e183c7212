"""Closed months in the formats that other tools read."""
