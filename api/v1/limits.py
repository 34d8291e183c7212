"""Documents of limits and guarantees of groups, members and workloads, and of what members lend."""

from collections.abc import Mapping, Sequence
from typing import Any

from allocator_service.core.quantities import Resource, vector_from
from allocator_service.pools.limits import MAX_LIMITS, Limit, is_same_list, limits_from
from allocator_service.pools.models import GroupTerms, MembershipTerms, OwnServers
from api.contract import documents


class LimitDocument(documents.Document):
    where = documents.SelectorField(
        writable={"default": dict, "description": "Selector of servers. {} selects all servers."}
    )
    amount = documents.NamedQuantitiesField(
        description="Greatest amount of each resource. Resources that are not named have no limit.",
        writable=True,
    )
    from_ = documents.TimestampField(
        source="start",
        allow_null=True,
        description="First instant at which the entry holds; null: since it was set.",
        writable={"required": False},
    )
    to = documents.TimestampField(
        source="end",
        allow_null=True,
        description="End of the entry, exclusive; null: no end.",
        writable={"required": False},
    )


class GuaranteeDocument(LimitDocument):
    amount = documents.NamedQuantitiesField(
        description="Guaranteed amount of each resource. Resources that are not named are unlimited in"
        " the pool of the guarantee.",
        writable=True,
    )


class LendDocument(LimitDocument):
    amount = documents.NamedQuantitiesField(
        description="Greatest amount of each resource that all others may have together. Resources that"
        " are not named have no limit.",
        writable=True,
    )


class GuaranteedNode(documents.Document):
    group = documents.TextField(max_length=253, required=False)
    tenant = documents.TextField(max_length=253, required=False)


class UnmetGuarantee(documents.Document):
    node = documents.DocumentField(GuaranteedNode)
    where = documents.SelectorField(required=False)
    amount = documents.PoolQuantitiesField(required=False)
    own_servers = documents.BooleanField(
        required=False,
        description="True for the guarantee of own servers, which has no `amount`.",
    )
    met = documents.NumberField(description="Least fraction of a floor that runs, from 0 to 1.")
    limited_by = documents.ListField(
        documents.LimitedByField(),
        min_items=0,
        description="Reasons for which the rest does not run. Guarantees that collide have the same"
        " reasons.",
    )


_KINDS: dict[str, tuple[type[documents.Document], str]] = {
    "limit": (
        LimitDocument,
        "Greatest amounts that are allocated at or below the node, with servers and dates.",
    ),
    "guarantee": (
        GuaranteeDocument,
        "Amounts that the workloads below the node can always have, with servers and dates.",
    ),
    "lend": (
        LendDocument,
        "Greatest amounts that others may have on the servers of the member, with dates.",
    ),
}


def amounts_field(kind: str = "limit") -> documents.StoredListField:
    """Return the field of the limits, guarantees or loans of a node."""
    document, description = _KINDS[kind]
    return documents.StoredListField(
        document,
        limits_from,
        min_items=0,
        max_items=MAX_LIMITS,
        code=f"{kind}.too_many",
        description=description,
        writable={"required": False},
    )


class OwnServersField(documents.BooleanField):
    """Setting of a node for own servers, null for that of the node above."""

    def __init__(self) -> None:
        super().__init__(
            allow_null=True,
            source=lambda terms, _: _SETTINGS[terms.own_servers],
            description="Guarantee to each workload of what it would get if its tenant ran alone on the"
            " servers that it contributed. null: the setting of the node above, at last of the pool.",
            writable={"default": lambda: _ABSENT},
        )


# Not None, which is null: the setting of the node above.
_ABSENT = object()
_SETTINGS = {OwnServers.INHERIT.value: None, OwnServers.YES.value: True, OwnServers.NO.value: False}


def own_servers_read(fields: Mapping[str, Any]) -> str | None:
    """Return the setting in a request's field `own_servers` as it is stored, None if it is absent."""
    given = fields["own_servers"]
    if given is _ABSENT:
        return None
    return next(stored for stored, setting in _SETTINGS.items() if setting is given)


def changed_amounts(
    fields: Mapping[str, Any],
    present: GroupTerms | MembershipTerms,
    kinds: Sequence[str],
    resources: Sequence[Resource],
) -> dict[str, bool]:
    """Return which amounts, or the setting of own servers, a request's fields change."""
    changed = {
        # A caller may send what it has read, in another order or notation: that is no change.
        kind: limits is not None and not is_same_list(limits, limits_from(getattr(present, kind)))
        for kind, limits in amounts_read(fields, kinds, resources).items()
    }
    return {**changed, "own_servers": own_servers_read(fields) not in (None, present.own_servers)}


def amounts_read(
    fields: Mapping[str, Any],
    kinds: Sequence[str],
    resources: Sequence[Resource],
    pointer: str = "",
) -> dict[str, list[Limit] | None]:
    """Return the amounts in a request's fields, by kind."""
    return {
        kind: limits_read(fields[kind], resources, pointer=f"{pointer}/{kind}") for kind in kinds
    }


def limits_read(
    rows: Sequence[Mapping[str, Any]] | None, resources: Sequence[Resource], *, pointer: str
) -> list[Limit] | None:
    """Return the limits in a request's field at `pointer`, or None if the request has no such field.

    Raises `Unacceptable` for unknown resources and invalid quantities.
    """
    if rows is None:
        return None
    limits = []
    for index, row in enumerate(rows):
        amount = vector_from(row["amount"], resources, pointer=f"{pointer}/{index}/amount")
        # The vector has 0 for resources that the entry does not name. These have no limit.
        named = {
            resource.name: quantity
            for resource, quantity in zip(resources, amount, strict=True)
            if resource.name in row["amount"]
        }
        limits.append(Limit(amount=named, where=row["where"], start=row["from"], end=row["to"]))
    return limits
