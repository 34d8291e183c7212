"""Every tenant of a large pool may have a workload or a server of one name.

Requests read those of the tenants that they name alone.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allocator_service.core.clock import utc_now
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests import factories

OTHERS = 20
NODE = "name,contributed_by,capacity.cpu,capacity.memory\nnode,{},1,1\n"
ROW = "tenant,name,demand.cpu,demand.memory,tasks\n{},work,1,1,5\n"


@pytest.fixture
def crowded(db):
    """A pool in which twenty tenants have a workload `work` and a server `node`, and two have none."""
    pool = factories.pool("lab", metering="reported")
    others = [factories.tenant(f"other-{number}") for number in range(OTHERS)]
    amounts = factories.vector(1, 1)
    servers = [ServerDraft("node", amounts, each) for each in others]
    servers_contribute(pool=pool, drafts=servers, now=utc_now())
    workloads = [WorkloadDraft(each, "work", amounts, tasks=1) for each in others]
    workloads_submit(pool=pool, drafts=workloads, now=utc_now())
    for slug in ("one", "two"):
        factories.tenant(slug)
    return pool


def posted(operator, path, body):
    """The answer to a request, and how many rows its searches for names have found."""
    with CaptureQueriesContext(connection) as statements:
        answer = operator.post(f"/api/v1/pools/lab/{path}", body)
    tables = ('"workload"."name" IN', '"server"."name" IN')
    searches = [each["sql"] for each in statements if any(table in each["sql"] for table in tables)]
    assert searches
    found = 0
    with connection.cursor() as cursor:
        for search in searches:
            cursor.execute(f"SELECT count(*) FROM ({search}) AS found")
            found += cursor.fetchall()[0][0]
    return answer, found


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("workloads/", {"tenant": "one", "name": "work", "demand": {"cpu": 1}, "tasks": 1}, 201),
        ("servers/", {"name": "node", "capacity": {"cpu": 1}, "contributed_by": "one"}, 201),
        ("servers/", {"name": "node", "capacity": {"cpu": 1}}, 201),
        ("imports/workloads/", {"content": ROW.format("one")}, 200),
        ("imports/nodes/", {"content": NODE.format("one")}, 200),
        ("imports/nodes/", {"content": NODE.format("")}, 200),
    ],
)
def test_another_tenants_workloads_and_servers_are_not_read(crowded, operator, path, body, status):
    answer, found = posted(operator, path, body)
    assert answer.status_code == status
    assert found <= 2  # what was made may be read again
    again, _ = posted(operator, path, body)
    assert again.status_code == (200 if "imports" in path else 409)


def test_usage_reads_the_workloads_of_its_tenants(crowded, operator):
    operator.post(
        "/api/v1/pools/lab/workloads/", {"tenant": "one", "name": "work", "demand": {"cpu": 1}}
    )
    event = {
        "id": "e1", "source": "meter", "tenant": "one", "workload": "work", "tasks": 1,
        "start": "2026-11-01T00:00:00Z", "end": "2026-11-01T01:00:00Z",
    }  # fmt: skip
    answer, found = posted(operator, "usage/", event)
    assert (answer.status_code, found) == (200, 1)
