"""Export of a tree of groups and members, as the CSV that `tree_import` reads."""

import csv
import io
from typing import Any

from django.core.exceptions import ValidationError

from allocator_service.core.errors import Conflict
from allocator_service.core.quantities import decimal_text
from allocator_service.imports.csv_files import NO_LIMIT, TREE_COLUMNS, TREE_KINDS
from allocator_service.pools.limit_forms import limits_parse, limits_text
from allocator_service.pools.limits import is_same_list, limits_from
from allocator_service.pools.models import GroupTerms, MembershipTerms, Pool
from allocator_service.pools.selectors import group_terms_of, members_of

GROUP, MEMBER = TREE_KINDS


def tree_csv(pool: Pool) -> str:
    """Return the present groups and members of a pool, ordered by slug.

    An import of the file into the pool changes nothing. `best_effort` and budgets are not part of it.
    Raises `Conflict` for an amount whose labels a line of text cannot express.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, TREE_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for group in group_terms_of(pool=pool).order_by("group__slug"):
        writer.writerow(
            {
                "kind": GROUP,
                "slug": group.group.slug,
                "name": group.group.name,
                "parent": group.parent.slug if group.parent else "",
                **_terms(group, group.group.slug, ("limit", "guarantee")),
            }
        )
    for member in members_of(pool=pool).order_by("membership__tenant__slug"):
        slug = member.membership.tenant.slug
        writer.writerow(
            {
                "kind": MEMBER,
                "slug": slug,
                "parent": member.group.slug if member.group else "",
                **_terms(member, slug, ("limit", "guarantee", "lend")),
            }
        )
    return text.getvalue()


def _terms(
    terms: GroupTerms | MembershipTerms, slug: str, kinds: tuple[str, ...]
) -> dict[str, Any]:
    """Return the cells that groups and members have in common. Lists that are empty are `none`."""
    cells: dict[str, Any] = {
        "weight": decimal_text(terms.weight),
        "tier": terms.tier,
        "own_servers": terms.own_servers,
    }
    for kind in kinds:
        stored = getattr(terms, kind)
        cells[kind] = limits_text(stored) or NO_LIMIT
        # Values of labels with blanks, commas or semicolons have no place in a line.
        if stored and not _reads_back(cells[kind], stored):
            raise Conflict(
                f'The {kind} of "{slug}" selects servers by a value that a CSV cannot express: expected'
                " values without blanks, commas and semicolons.",
                code="import.selector",
            )
    return cells


def _reads_back(text: str, stored: Any) -> bool:
    try:
        return is_same_list(limits_parse(text), limits_from(stored))
    except ValidationError:
        return False
