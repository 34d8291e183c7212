"""The tenants of an archive and those of this installation."""

from collections.abc import Collection
from dataclasses import dataclass

from django.db import connection

from allocator_service.core.errors import MAX_ERRORS, Conflict, Unacceptable

# A tenant that came with another pool of the same installation was registered at the same microsecond.
_MATCHES = """
SELECT i.slug, t.id IS NOT NULL, t.created_at = i.created_at
FROM incoming_tenant i LEFT JOIN tenant t ON t.slug = i.slug ORDER BY i.slug
"""
_KEYS = """
CREATE TEMPORARY TABLE key_of_tenant ON COMMIT DROP AS
SELECT i.id AS former,
       COALESCE(t.id, nextval(pg_get_serial_sequence('tenant', 'id'))) AS key, t.id IS NULL AS is_new
FROM (SELECT * FROM incoming_tenant ORDER BY id) i LEFT JOIN tenant t ON t.slug = i.slug
"""


@dataclass(frozen=True)
class MatchedTenants:
    """The slugs of an archive's tenants.

    `registered` are new here. `present` were here before.
    """

    registered: list[str]
    present: list[str]


def tenants_match(*, same: Collection[str]) -> MatchedTenants:
    """Choose the keys of the archive's tenants.

    A tenant with the slug of one that is here is taken for the same if both were registered at the same
    instant, or if `same` names it. Raises `Conflict` for any other, whose use and money would otherwise
    be added to those of a stranger.
    """
    with connection.cursor() as cursor:
        cursor.execute(_MATCHES)
        rows = cursor.fetchall()
        # A misspelt name must not pass for a tenant that is new.
        known = {slug for slug, *_ in rows}
        foreign = sorted(set(same) - known)
        if foreign:
            raise Unacceptable(
                f"The archive has no tenant {', '.join(foreign[:MAX_ERRORS])}.",
                code="tenant.unknown",
            )
        present = [slug for slug, is_here, _ in rows if is_here]
        unclear = [slug for slug, is_here, is_equal in rows if is_here and not is_equal]
        unclear = [slug for slug in unclear if slug not in same]
        if unclear:
            names = ", ".join(unclear[:MAX_ERRORS])
            raise Conflict(
                f"Tenants of these slugs are here already: {names}. If they are the same tenants, state"
                f" it for each, as in --same-tenant {unclear[0]}.",
                code="archive.tenant",
            )
        cursor.execute(_KEYS)
    return MatchedTenants([slug for slug, is_here, _ in rows if not is_here], present)
