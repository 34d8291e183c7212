"""Pools and their decisions in the admin."""

from allocator_service.allocation.admin import pages as pages  # registers them
