"""Last steps of ``solve``, which round to feasibility and keep tasks in place."""
