"""The web server's limits on sizes, connections and the pace of a client."""

# A bulk body is at most 32 MiB. The application rejects larger ones itself, with the route's limit.
LARGEST_BODY = 64 * 1024 * 1024
LARGEST_HEADER = 64 * 1024
LARGEST_CHUNK_HEADER = 1024
LARGEST_TRAILER = 8 * 1024
# Leaves room for the database and files below 1,024 descriptors, the usual limit of a process.
CONNECTIONS = 900
# Connections closed together at the limit, so that the search for the oldest ones is rare.
EVICTED_AT_ONCE = 50
# Unfinished bodies that a process keeps, in memory or in temporary files.
UNFINISHED_BYTES = 1024 * 1024 * 1024

SILENT_CLIENT_SECONDS = 30
# A request to arrive, or a buffered answer to be read, may take this long plus a second for each
# `SLOWEST_BYTES_PER_SECOND` bytes. A client that sends a byte a second is never silent for long.
GRACE_SECONDS = 20
SLOWEST_BYTES_PER_SECOND = 8 * 1024
