"""Verification of archived files against what the database recorded of them."""

from collections.abc import Collection

from allocator_service.core.display import counted
from allocator_service.core.errors import Unavailable
from allocator_service.ledger.archive.files import archive_path, file_metadata
from allocator_service.ledger.models import Archive


def archives_verify(archives: Collection[Archive]) -> tuple[bool, str]:
    """Return whether every file is the one that was written, with the first fault or their number.

    The digest of each file is computed again.
    """
    for archive in archives:
        try:
            fault = _fault(archive)
        except Unavailable as error:
            fault = error.detail
        if fault:
            return False, fault
    return True, counted(len(archives), "file")


def _fault(archive: Archive) -> str:
    """Return the first difference between a file's metadata and the database, or an empty text."""
    try:
        metadata = file_metadata(archive_path(archive, again=True))
    except ValueError as error:
        return str(error)
    stated = {
        "month": f"{archive.month:%Y-%m}",
        "entries": archive.entries,
        "first_sequence": archive.first_sequence,
        "last_sequence": archive.last_sequence,
        "lines_sha256": bytes(archive.lines_sha256).hex(),
    }
    for name, value in stated.items():
        if metadata[name] != value:
            return f"{archive.name} has {name} {metadata[name]}, and the database {value}"
    if sum(pool.entries for pool in archive.pools.all()) != archive.entries:
        return f"the pools of {archive.name} have other numbers of entries"
    return ""
