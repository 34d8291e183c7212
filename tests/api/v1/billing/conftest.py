"""The worked month: a pool that shares, its prices, and what was used in March."""

import dataclasses

import pytest

from allocator_service.core.quantities import Resource
from allocator_service.pools.member_services import members_admit
from allocator_service.tenants.models import ApiKey
from tests import factories
from tests.integration.billing.conftest import at, seal, used

POOL = "/api/v1/pools/lab"
PLANS = "/api/v1/price-plans/"
MARCH, APRIL = "2027-03", "2027-04"


def plan(start="2027-03-01T00:00:00+01:00", shared="0.04", **changes):
    return {
        "pool": "lab",
        "name": "2027",
        "from": start,
        "fee": "0.10",
        "rates": [{"resource": "cpu", "own": "0.01", "shared": shared, "outside": "0.12"}],
    } | changes


@pytest.fixture
def clock(operator, billing, settings, tmp_path):
    """The service's time, which stands still until it is turned; keys live on."""
    ApiKey.objects.update(expires_at=at(1, year=2030))
    file = tmp_path / "clock"

    def turn(instant):
        file.write_text(instant.isoformat())

    turn(at(1, 1))
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, clock_file=str(file))
    return turn


@pytest.fixture
def lab(clock):
    pool = factories.pool("lab", timezone="Europe/Berlin", resources=[Resource("cpu", "core")])
    tenants = [factories.tenant(slug) for slug in "ab"]
    members_admit(pool=pool, tenants=tenants, now=at(1, 1))
    return pool


def published(operator, body):
    made = operator.post(PLANS, body)
    assert made.status_code == 201, made.content
    answer = operator.post(f"{made['Location']}publish/")
    assert answer.status_code == 200, answer.content
    return answer.json()


@pytest.fixture
def march(lab, operator, clock):
    a, b = (member.tenant for member in lab.memberships.order_by("id"))
    published(operator, plan())
    published(operator, plan("2027-03-20T00:00:00+01:00", "0.05", name="from 20 March"))
    used(lab, a, a, 6, at(1), at(1, 4))
    used(lab, a, b, 3, at(15), at(20))
    used(lab, a, b, 3, at(20), at(1, 4))
    used(lab, b, b, 4, at(1), at(1, 4))
    for member, alone in ((a, 7), (b, 4)):
        used(lab, member, None, alone, at(1), at(1, 4), kind="alone")
    seal()
    clock(at(2, 4))
    return lab


def closed(operator, month=MARCH):
    answer = operator.post(f"{POOL}/statements/", {"month": month})
    assert answer.status_code == 201, answer.content
    return answer
