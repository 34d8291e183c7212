"""Reports of how fairly a pool was used."""
