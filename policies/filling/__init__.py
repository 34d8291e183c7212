"""Whole tasks, one at a time: filling one pool or real servers, MRFS, static partitions."""
