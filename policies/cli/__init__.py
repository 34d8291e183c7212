"""The command line: aligned text for people."""
