"""Statements without a database."""
