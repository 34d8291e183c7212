"""Bodies of one object or many, as a JSON object, a JSON array or the rows of a CSV."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from allocator_service.core.errors import MAX_ERRORS, FieldError, Unacceptable
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.selectors import tenants_for
from api.contract.documents import read_document, read_documents
from policies.fields import Document


@dataclass(frozen=True)
class Items:
    """The fields of the objects in a body, each with its pointer.

    `alone`: the body was one JSON object.
    """

    fields: Sequence[dict[str, Any]]
    alone: bool

    def pointer(self, index: int) -> str:
        return "" if self.alone else f"/{index}"


def read_items(
    document: type[Document],
    sent: Any,
    *,
    cells: bool,
    refuse_too_many: Callable[[int], None] | None = None,
) -> Items:
    """Read the items of a body. Raises as `read_document`.

    `cells`: they are texts of a CSV.

    `refuse_too_many` gets the number of items before any of them is read.
    """
    if not isinstance(sent, list):
        return Items([read_document(document, sent)], alone=True)
    if not sent:
        raise Unacceptable(
            "The array is empty: send at least one item.", code="bulk.empty", pointer=""
        )
    if refuse_too_many is not None:
        # Before any item is read: reading is most of the cost of what is refused.
        refuse_too_many(len(sent))
    return Items(read_documents(document, sent, cells=cells), alone=False)


def tenants_named(
    items: Items,
    field: str,
    *,
    caller: Tenant | None,
    required: bool,
    among: QuerySet[Tenant] | None = None,
) -> list[Tenant | None]:
    """Return the tenant that each item names in `field`, which a tenant's own items may omit.

    They are tenants that are not retired, or `among` others. For a tenant's key every slug but its own
    is unknown. Raises `Unacceptable` naming the items.
    """
    slugs = {fields[field] for fields in items.fields} - {None}
    if caller is not None:
        # Others get the error of unknown slugs, so that a key cannot find out which tenants exist.
        known = {caller.slug: caller} if caller.slug in slugs else {}
    else:
        found = tenants_for(None) if among is None else among
        known = {tenant.slug: tenant for tenant in found.filter(slug__in=slugs)}
    errors: list[FieldError] = []
    tenants: list[Tenant | None] = []
    for index, fields in enumerate(items.fields):
        slug = fields[field]
        where = f"{items.pointer(index)}/{field}"
        tenant = known.get(slug) if slug is not None else caller
        tenants.append(tenant)
        if slug is None and tenant is None and required:
            errors.append(FieldError(where, "field.required", f'"{field}" is required.'))
        elif slug is not None and tenant is None:
            errors.append(FieldError(where, "tenant.unknown", f'No tenant has the slug "{slug}".'))
        if len(errors) == MAX_ERRORS:
            break
    if errors:
        raise Unacceptable(errors[0].detail, code=errors[0].code, errors=errors)
    return tenants


def created_document(ids: Sequence[UUID | str]) -> Mapping[str, Any]:
    """Return the answer to a request that created many objects."""
    return {"created": len(ids), "first": ids[0], "last": ids[-1]}
