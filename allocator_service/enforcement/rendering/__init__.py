"""A decision as the limits of a scheduler: exact amounts in, whole numbers of its units out."""
