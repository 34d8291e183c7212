"""A pool with two racks, and workloads whose tasks have several pieces."""

from allocator_service.core.quantities import Resource
from tests import factories

PATH = "/api/v1/pools/shared"
RACKS = ("a", "a", "b", "b")
MPI = {"tenant": "mpi", "name": "mpi", "pieces": [{"count": 3, "demand": {"gpu": 8}}], "tasks": 2}
SOLO = {"tenant": "solo", "name": "solo", "demand": {"gpu": 1}, "tasks": 40}


def pool_of(operator, mode, policy="drfh", **options):
    """Return a pool with two racks of two servers, each with 8 GPUs."""
    pool = factories.pool(
        "shared", resources=[Resource("gpu", "")], mode=mode, policy=policy, options=options
    )
    pool.tenants = {slug: factories.tenant(slug) for slug in ("mpi", "solo")}
    for slug in pool.tenants:
        assert operator.put(f"{PATH}/members/{slug}/", {"weight": 1}).status_code == 201
    for number, rack in enumerate(RACKS):
        server = {"name": f"s{number}", "capacity": {"gpu": 8}, "labels": {"rack": rack}}
        assert operator.post(f"{PATH}/servers/", server).status_code == 201
    return pool


def submit(operator, *bodies):
    for body in bodies:
        answer = operator.post(f"{PATH}/workloads/", body)
        assert answer.status_code == 201, answer.json()
    return answer.json()


def tasks(run):
    return {row.workload.name: row.tasks for row in run.allocations.select_related("workload")}


def patch(operator, path, body):
    return operator.patch(path, body, If_Match=operator.get(path)["ETag"])


def proven(operator, run):
    proof = operator.post(f"/api/v1/runs/{run.pk}/verify/").json()
    assert proof["valid"], proof
