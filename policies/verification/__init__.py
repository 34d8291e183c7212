"""Checking an answer with arithmetic only, one module per kind of claim."""
