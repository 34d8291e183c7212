"""`alloc`: the allocation service in a terminal."""
