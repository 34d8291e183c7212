"""The last steps of ``solve``: rounding to feasibility, and keeping tasks in place."""
