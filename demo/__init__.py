"""The product demonstration of `./dev demo`, with a sample pool, the main job and a report."""
