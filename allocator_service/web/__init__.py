"""Web server: requests read strictly and buffered, clients held to a pace."""
