"""Command line, with aligned text for people."""
