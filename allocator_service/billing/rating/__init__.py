"""Rating: from sealed entries and prices to lines, each a balanced posting."""
