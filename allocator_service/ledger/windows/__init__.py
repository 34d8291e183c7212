"""What the window of a pool holds at an instant, and what past windows held."""
