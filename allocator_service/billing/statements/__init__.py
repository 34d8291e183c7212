"""Statements of a tenant's month, computed while it is open and stored when it is closed."""
