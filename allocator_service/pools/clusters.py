"""Clusters of a pool, whose servers have the label `cluster` in common.

In a pool where any server has the label, one without it is in the cluster that has the pool's slug.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet, TextField, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce, NullIf

from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.errors import Conflict, FieldError, Unreadable
from allocator_service.core.outbox import event_record
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import Cluster, Pool, Server
from allocator_service.pools.recompute import pool_changed

CLUSTER_LABEL = "cluster"


def cluster_of(labels: Mapping[str, str], pool: str) -> str:
    """Return the cluster of a server of the pool with this slug."""
    return labels.get(CLUSTER_LABEL) or pool


def clusters_selected(selector: Mapping[str, Any]) -> list[str] | None:
    """Return the clusters that a workload selects, None for all."""
    named = selector.get(CLUSTER_LABEL)
    return [named] if isinstance(named, str) else named


def labelled_clusters(pool: Pool) -> set[str]:
    """Return the clusters that labels of the pool's servers name, none in a pool of one scheduler."""
    servers = Server.objects.filter(pool=pool, labels__has_key=CLUSTER_LABEL).present()
    return set(servers.values_list(f"labels__{CLUSTER_LABEL}", flat=True).distinct()) - {""}


def has_had_clusters(pool: Pool) -> bool:
    """Return whether the label of any server names a cluster, retired servers included."""
    return Server.objects.filter(pool=pool, labels__has_key=CLUSTER_LABEL).exists()


def clusters_away(
    pool: Pool, *, by: datetime | None = None, generation: int | None = None
) -> dict[str, datetime]:
    """Return since when clusters give no capacity because their agents are silent, by name.

    Those that left after the instant `by` or after a generation of the pool are left out.
    """
    left = Cluster.objects.filter(pool=pool, left_at__isnull=False)
    if by is not None:
        left = left.filter(left_at__lte=by)
    if generation is not None:
        left = left.filter(generation__lte=generation)
    found = {each.name: each.left_at for each in left if each.left_at is not None}
    # Without a label the servers of all schedulers are one capacity.
    return found if found and labelled_clusters(pool) else {}


def servers_in(pool: Pool, clusters: Iterable[str]) -> QuerySet[Server]:
    """Return the present servers of clusters of a pool with clusters."""
    present = Server.objects.filter(pool=pool).present()
    return present.alias(cluster=cluster_named(pool)).filter(cluster__in=list(clusters))


def cluster_named(pool: Pool) -> Coalesce:
    """Return the expression for the cluster of a server of a pool with clusters."""
    label = NullIf(KeyTextTransform(CLUSTER_LABEL, "labels"), _text(""))
    return Coalesce(label, _text(pool.slug))


def _text(value: str) -> Value:
    return Value(value, output_field=TextField())


def other_cluster(named: str, cluster: str, pointer: str) -> FieldError:
    """Return the error of a row that is not of the cluster of the caller's key."""
    detail = f'The key is bound to the cluster "{cluster}", and this is of "{named}".'
    return FieldError(pointer, "cluster.other", detail)


def cluster_known(*, pool: Pool, name: str) -> None:
    """Raise `Unreadable` unless the pool has the cluster."""
    known = {pool.slug, *labelled_clusters(pool)}
    if name not in known:
        raise Unreadable(
            f'The pool has no cluster "{name[:40]}"; it has {", ".join(sorted(known)[:20])}.',
            code="cluster.unknown",
            extra={"parameter": "cluster"},
        )


def cluster_decided(*, pool: Pool, name: str, generation: int | None) -> None:
    """Raise `Conflict` if a decision of this generation is of a time when the cluster was away.

    Its scheduler keeps the limits that it has until a decision counts its servers again.
    """
    cluster = Cluster.objects.filter(pool=pool, name=name).first()
    if cluster is None or (cluster.left_at is None and (generation or 0) >= cluster.generation):
        return
    raise Conflict(
        f'The decision in force leaves out the cluster "{name}", whose agents were silent. Limits stay'
        " as they are until the next decision with its servers.",
        code="rendering.cluster",
    )


@transaction.atomic
def cluster_leave(*, pool: Pool, name: str, now: datetime) -> None:
    """Take the capacity of a cluster out of the next decisions, because its agents are silent."""
    pool = pool_lock(pool)
    cluster = Cluster.objects.filter(pool=pool, name=name).first()
    if cluster is not None and cluster.left_at is not None:
        return
    before = None if cluster is None else stated_fields(cluster)
    cluster = cluster or Cluster(pool=pool, name=name)
    cluster.left_at = now
    generation = _stored(cluster, "cluster.leave", before, now)
    payload = {"cluster": name, "generation": generation}
    event_record(kind="cluster.left", pool=pool.slug, payload=payload, now=now)


@transaction.atomic
def cluster_return(*, pool: Pool, name: str, now: datetime) -> None:
    """Count the capacity of a cluster, whose agent is heard. Nothing changes if it counts already."""
    left = Cluster.objects.filter(pool=pool, name=name, left_at__isnull=False)
    if not left.exists():
        return
    pool = pool_lock(pool)
    cluster = left.first()
    if cluster is None:
        return
    before = stated_fields(cluster)
    cluster.left_at, cluster.returned_at = None, now
    generation = _stored(cluster, "cluster.return", before, now)
    payload = {"cluster": name, "generation": generation}
    event_record(kind="cluster.returned", pool=pool.slug, payload=payload, now=now)


def _stored(cluster: Cluster, action: str, before: Mapping[str, Any] | None, now: datetime) -> int:
    """Store a cluster of the locked pool and return the generation of the change."""
    cluster.generation = pool_changed(cluster.pool, now=now)
    cluster.save()
    slug = cluster.pool.slug
    audit_record(action=action, instance=cluster, before=before, now=now, pool=slug)
    return cluster.generation
