"""Pools and their decisions in the admin."""

from allocator_service.allocation.admin import board as board  # registers its sections
from allocator_service.allocation.admin import demand_and_changes as demand_and_changes  # tabs
from allocator_service.allocation.admin import overview as overview  # tabs
from allocator_service.allocation.admin import pages as pages
from allocator_service.allocation.admin import runs as runs
