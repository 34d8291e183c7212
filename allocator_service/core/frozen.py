"""Settings of garbage collection, applied on import by processes from which others are forked.

The pages of what was imported before stay shared with the forked processes.
"""

from allocator_service.core.garbage import collect_rarely

collect_rarely()
