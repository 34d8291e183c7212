"""The product demonstration that `./dev demo` runs: a sample pool, the main job, its report."""
