"""Clusters of a pool, whose servers have the label `cluster` in common."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from django.db import transaction

from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.errors import FieldError, Unreadable
from allocator_service.core.outbox import event_record
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import Cluster, Pool
from allocator_service.pools.recompute import pool_changed

CLUSTER_LABEL = "cluster"


def cluster_of(labels: Mapping[str, str], pool: str) -> str:
    """Return the cluster of a server of the pool with this slug."""
    return labels.get(CLUSTER_LABEL, pool)


def clusters_named(pool: Pool, labels: Iterable[Mapping[str, str]]) -> None:
    """Store the clusters that labels of servers name for the first time."""
    names = {each[CLUSTER_LABEL] for each in labels if CLUSTER_LABEL in each}
    if names:
        clusters = [Cluster(pool=pool, name=name) for name in sorted(names)]
        Cluster.objects.bulk_create(clusters, ignore_conflicts=True)


def other_cluster(named: str, cluster: str, pointer: str) -> FieldError:
    """Return the error of what is of another cluster than the caller's."""
    detail = f'The key is bound to the cluster "{cluster}", and this is of "{named}".'
    return FieldError(pointer, "cluster.other", detail)


def cluster_known(*, pool: Pool, name: str) -> None:
    """Raise `Unreadable` unless the pool has the cluster."""
    known = {pool.slug, *Cluster.objects.filter(pool=pool).values_list("name", flat=True)}
    if name not in known:
        raise Unreadable(
            f'The pool has no cluster "{name[:40]}"; it has {", ".join(sorted(known)[:20])}.',
            code="cluster.unknown",
            extra={"parameter": "cluster"},
        )


@transaction.atomic
def cluster_leave(*, pool: Pool, name: str, now: datetime) -> None:
    """Take the capacity of a cluster out of the next decisions, because its agents are silent."""
    generation = _set_left(pool, name, left_at=now, action="cluster.leave", now=now)
    if generation is not None:
        payload = {"cluster": name, "generation": generation}
        event_record(kind="cluster.left", pool=pool.slug, payload=payload, now=now)


@transaction.atomic
def cluster_return(*, pool: Pool, name: str, now: datetime) -> None:
    """Count the capacity of a cluster, whose agent reports. Nothing changes if it counts already."""
    generation = _set_left(pool, name, left_at=None, action="cluster.return", now=now)
    if generation is not None:
        payload = {"cluster": name, "generation": generation}
        event_record(kind="cluster.returned", pool=pool.slug, payload=payload, now=now)


def _set_left(
    pool: Pool, name: str, *, left_at: datetime | None, action: str, now: datetime
) -> int | None:
    """Return the generation of the change, None if there is none."""
    pool = pool_lock(pool)
    cluster, _ = Cluster.objects.get_or_create(pool=pool, name=name)
    if (cluster.left_at is None) == (left_at is None):
        return None
    before = stated_fields(cluster)
    cluster.left_at = left_at
    cluster.save(update_fields=["left_at"])
    audit_record(action=action, instance=cluster, before=before, now=now, pool=pool.slug)
    return pool_changed(pool, now=now)
