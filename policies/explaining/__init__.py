"""Explanations of a tenant's share and of the owners of the servers that it uses."""
