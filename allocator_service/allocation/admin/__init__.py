"""Pools and their decisions in the admin."""

from allocator_service.allocation.admin import board as board  # registers what it tells
from allocator_service.allocation.admin import pages as pages
from allocator_service.allocation.admin import runs as runs
