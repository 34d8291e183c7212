"""Mail to people about events of their tenants."""
