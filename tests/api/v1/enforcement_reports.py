"""Reports of an agent of the pool lab, and the events that follow."""

from allocator_service.core.clock import utc_now
from allocator_service.core.models import Event

PATH = "/api/v1/pools/lab/enforcement/"


def report(run, *, ada=(2, 10), bob=(10, 2), used=1, **changes):
    rows = {"ada": ada, "bob": bob}
    return {
        "agent": "slurm-lab",
        "target": "slurm",
        "run": None if run is None else str(run.pk),
        "generation": None if run is None else run.generation,
        "interval": "PT15S",
        "reported_at": utc_now().isoformat(),
        "tenants": [
            {
                "tenant": tenant,
                "applied": {"cpu": cpu, "memory": str(memory)},
                "used": {"cpu": used},
            }
            for tenant, (cpu, memory) in rows.items()
        ],
        **changes,
    }


def kinds():
    rows = Event.objects.filter(kind__startswith="enforcement.").order_by("pk")
    return list(rows.values_list("kind", "tenant"))


def drifts():
    """The events about tenants: time passes in these tests without another report."""
    return [(kind, tenant) for kind, tenant in kinds() if tenant is not None]
