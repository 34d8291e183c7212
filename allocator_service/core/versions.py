"""Optimistic concurrency on what clients edit."""

from allocator_service.core.errors import Stale


def check_version(actual: int, expected: int | None) -> None:
    """Reject an edit that was made against another version. `None` accepts any version.

    Raises `Stale`, 412.
    """
    if expected is not None and actual != expected:
        raise Stale(
            f"The object is at version {actual}, the request was made for version {expected}: read"
            " it again and repeat the change."
        )
