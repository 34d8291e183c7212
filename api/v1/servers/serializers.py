"""Servers as documents."""

from collections.abc import Sequence
from typing import Any

from allocator_service.core.quantities import Resource, vector_to_document
from allocator_service.pools.models import Pool, Server, ServerState
from allocator_service.pools.server_services import MAX_SERVERS_PER_REQUEST
from api.contract.fields import (
    IdField,
    LabelsField,
    PoolQuantitiesField,
    SlugField,
    TimestampField,
    VersionField,
)
from api.contract.parameters import PageParameters
from policies.fields import ChoiceField, Document, IntegerField, TextField

MAX_COUNT = 10**12  # how many one request may make is for the domain to say, as 413


class ServerRequest(Document):
    name = TextField(max_length=240)
    contributed_by = SlugField(
        required=False, allow_null=True, description="null: the pool's own. A tenant's key: itself."
    )
    capacity = PoolQuantitiesField()
    labels = LabelsField(default=dict)
    count = IntegerField(
        minimum=1,
        maximum=MAX_COUNT,
        default=1,
        description=f"Identical servers name-0001, ...: at most {MAX_SERVERS_PER_REQUEST} a request.",
    )


class ServerChange(Document):
    name = TextField(max_length=253)
    contributed_by = SlugField(required=False, allow_null=True)
    capacity = PoolQuantitiesField()
    labels = LabelsField(default=dict)


class ServerDocument(Document):
    id = IdField()
    pool = SlugField()
    name = TextField(max_length=253)
    contributed_by = SlugField(allow_null=True)
    capacity = PoolQuantitiesField()
    labels = LabelsField()
    state = ChoiceField(choices=ServerState.values)
    version = VersionField()
    created_at = TimestampField()
    retired_at = TimestampField(allow_null=True)


class ServerParameters(PageParameters):
    state = ChoiceField(
        choices=ServerState.values, required=False, description="All but retired ones by default."
    )
    name = TextField(
        max_length=253, required=False, description="Only servers of exactly this name."
    )
    contributed_by = SlugField(
        required=False, description="Only servers that the tenant of this slug contributed."
    )


# What a list reads: rows, not objects, at a third of the time.
SERVER_COLUMNS = (
    "id", "name", "contributed_by__slug", "capacity", "labels", "state", "version", "created_at",
    "retired_at",
)  # fmt: skip


def server_document(server: Server, pool: Pool, resources: Sequence[Resource]) -> dict[str, Any]:
    contributor = server.contributed_by
    return server_row(server, contributor.slug if contributor else None, pool, resources)


def server_row(
    server: Any, contributor: str | None, pool: Pool, resources: Sequence[Resource]
) -> dict[str, Any]:
    """The document of a server, or of a row that a list has read."""
    return {
        "id": server.id,
        "pool": pool.slug,
        "name": server.name,
        "contributed_by": contributor,
        "capacity": vector_to_document(server.capacity, resources),
        "labels": server.labels,
        "state": server.state,
        "version": server.version,
        "created_at": server.created_at,
        "retired_at": server.retired_at,
    }


def server_fields(server: Server, resources: Sequence[Resource]) -> dict[str, Any]:
    """What a merge-patch changes, quantities exact."""
    contributor = server.contributed_by
    return {
        "name": server.name,
        "contributed_by": contributor.slug if contributor else None,
        "capacity": {
            resource.name: quantity
            for resource, quantity in zip(resources, server.capacity, strict=False)
        },
        "labels": server.labels,
    }


def server_columns(resources: Sequence[Resource]) -> list[str]:
    """The columns of a CSV of servers."""
    return expanded(ServerDocument, "capacity", resources)


def expanded(document: type[Document], vector: str, resources: Sequence[Resource]) -> list[str]:
    """A document's fields as columns, one for each resource in the place of its vector."""
    columns: list[str] = []
    for name in document.fields:
        if name == vector:
            columns.extend(f"{vector}.{resource.name}" for resource in resources)
        else:
            columns.append(name)
    return columns
