"""`alloc`, the command line of the allocation service."""
