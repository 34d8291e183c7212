"""The members of a transparent pool as a tenant sees them: itself, and the others by pseudonym.

Their order is that of the names shown: any other would tell something of the names behind them.
"""

from collections.abc import Collection

from allocator_service.pools.models import MembershipTerms, Pool
from allocator_service.pools.selectors import members_of
from allocator_service.tenants.models import Tenant
from api.contract.pagination import Page, bad_cursor, cursor_position, make_cursor
from api.pseudonyms import group_name, tenant_name

LIST = "roster"


def roster(*, pool: Pool, caller: Tenant) -> dict[str, MembershipTerms]:
    """The present terms of every member, by the name the caller knows it by, in their order."""
    named = {
        tenant_name(terms.membership.tenant.slug, pool=pool, caller=caller): terms
        for terms in members_of(pool=pool)
    }
    return dict(sorted(named.items()))


def roster_page(
    *,
    pool: Pool,
    caller: Tenant,
    known: Collection[str] | None,
    group: str | None,
    cursor: str | None,
    limit: int,
) -> Page:
    """A page of the roster, or of its members of a group by the name that the caller knows it by."""
    after = "" if cursor is None else cursor_position(LIST, cursor)
    if not isinstance(after, str):
        raise bad_cursor()
    members = roster(pool=pool, caller=caller)
    names = [
        name
        for name, terms in members.items()
        if name > after and (group is None or _group_shown(terms, pool, known) == group)
    ]
    following = make_cursor(LIST, names[limit - 1]) if len(names) > limit else None
    return Page([members[name] for name in names[:limit]], following)


def _group_shown(terms: MembershipTerms, pool: Pool, known: Collection[str] | None) -> str | None:
    return group_name(terms.group.slug, pool=pool, known=known) if terms.group else None
