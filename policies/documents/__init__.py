"""The JSON shapes of problems and answers."""
