"""Limits of the web server: sizes, connections and the pace of a client."""

# A bulk body is at most 32 MiB. The application rejects larger ones itself, with the route's limit.
LARGEST_BODY = 64 * 1024 * 1024
LARGEST_HEADER = 64 * 1024
LARGEST_CHUNK_HEADER = 1024
LARGEST_TRAILER = 8 * 1024
# Below 1,024 descriptors, the usual limit of a process, with room for the database and files.
CONNECTIONS = 900
# Connections closed at once when the limit is reached, so that the search is rare.
EVICTED_AT_ONCE = 50
# Unfinished bodies that a process keeps, in memory or in temporary files.
UNFINISHED_BYTES = 1024 * 1024 * 1024

SILENT_CLIENT_SECONDS = 30
# A request, and the answer that waits in buffers, may take this long and a second more for each
# `SLOWEST_BYTES_PER_SECOND` bytes of it. Only the pace bounds a client that sends a byte a second.
GRACE_SECONDS = 20
SLOWEST_BYTES_PER_SECOND = 8 * 1024
