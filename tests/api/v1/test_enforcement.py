"""What agents report, and decided, enforced and used per tenant, over REST."""


import pytest

from allocator_service.core.clock import utc_now
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/api/v1/pools/lab/enforcement/"


@pytest.fixture
def decided(world):
    """DRFH Fig. 2, decided: ada has 2 CPUs and 10 GiB, bob 10 CPUs and 2 GiB."""
    return factories.decision(world.lab)


def report(run, *, ada=(2, 10), bob=(10, 2), **changes):
    rows = {"ada": ada, "bob": bob}
    return {
        "agent": "slurm-lab",
        "target": "slurm",
        "run": None if run is None else str(run.pk),
        "generation": None if run is None else run.generation,
        "interval": "PT15S",
        "reported_at": utc_now().isoformat(),
        "tenants": [
            {"tenant": tenant, "applied": {"cpu": cpu, "memory": str(memory)}, "used": {"cpu": 1}}
            for tenant, (cpu, memory) in rows.items()
        ],
        **changes,
    }


def test_a_report_shows_the_three_numbers_of_each_tenant(decided, operator):
    body = report(decided)
    answer = operator.put(PATH, body)
    assert (answer.status_code, answer.json()) == (200, body)
    document = operator.get(PATH).json()
    print(document)
    assert document["stale"] is False
