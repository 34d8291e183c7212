"""Every policy, decided by the running service: what is served is what an evaluation answers."""

import json

import pytest

from policies import policies_available

CHOICES = [(info.name, mode) for info in policies_available() for mode in info.modes]
OPTIONS = [
    ("drfh", "indivisible", {"placement": "first-fit"}),
    ("tda", "indivisible", {"pack": True}),
]
RESOURCES = [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}]
SERVERS = [
    {"name": "high-memory", "contributed_by": "u1", "capacity": {"cpu": 2, "memory": 12}},
    {"name": "high-cpu", "contributed_by": "u2", "capacity": {"cpu": 12, "memory": 2}},
    {"name": "node", "capacity": {"cpu": 3, "memory": 3}, "count": 3},
]
WORKLOADS = [
    {"tenant": "u1", "name": "analysis", "demand": {"cpu": 0.2, "memory": 1}, "tasks": 7},
    {"tenant": "u1", "name": "urgent", "demand": {"cpu": 0.7, "memory": 0.9}, "priority": 2},
    {"tenant": "u2", "name": "simulation", "demand": {"cpu": 1, "memory": 0.2}},
    {"tenant": "u3", "name": "batch", "demand": {"cpu": "1100m", "memory": 1.7}},
]  # fmt: skip
IN_BOTH = (
    "tasks",
    "resources",
    "dominant_resource",
    "dominant_share",
    "weighted_share",
    "limited_by",
)
ADDED = {"include": ["placements", "certificate", "schedule"]}


@pytest.fixture(scope="module")
def generations(operator):
    """A pool of each policy, mode and option; by its slug, the generation of its last change."""
    for slug in ("u1", "u2", "u3"):
        operator.post("/api/v1/tenants/", {"slug": slug, "name": slug})
    wanted = {}
    for number, (name, mode, options) in enumerate([*((*c, {}) for c in CHOICES), *OPTIONS]):
        slug = f"served-{number}-{name}"
        policy = {"name": name, "mode": mode, "options": options}
        body = {"slug": slug, "name": slug, "resources": RESOURCES, "policy": policy}
        operator.post("/api/v1/pools/", body | {"weights": "explicit", "decision_interval": "PT2S"})
        for server in SERVERS:
            operator.post(f"/api/v1/pools/{slug}/servers/", server)
        written = operator.post(f"/api/v1/pools/{slug}/workloads/", WORKLOADS)
        wanted[slug] = int(written.headers["Pool-Generation"])
    yield wanted
    for slug in wanted:  # those that decide every two seconds would go on beside other tests
        operator.patch(
            f"/api/v1/pools/{slug}/", {"policy": {"name": "drfh"}, "decision_interval": "PT1H"}
        )


def test_what_is_served_is_what_an_evaluation_of_the_same_input_answers(
    operator, decided, generations
):
    compared = 0
    for slug, generation in generations.items():
        run = f"/api/v1/runs/{decided(slug, generation)['run']['id']}"
        served = operator.get(f"{run}/allocations/").body["results"]
        answer = operator.post(
            "/api/v1/evaluations/", operator.get(f"{run}/input/").body | ADDED
        ).body
        compared += same(slug, [part(row) for row in served], map(part, answer["allocations"]))
        compared += same(slug, operator.get(f"{run}/").body["summary"], answer["summary"])
        placed = operator.pages(f"{run}/placements/")
        compared += same(slug, on_servers(placed), on_servers(answer["placements"]))
        if answer["certificate"] is not None:
            certificate = operator.get(f"{run}/certificate/").body
            compared += same(slug, certificate, answer["certificate"])
        if answer["schedule"] is not None:
            schedule = operator.get(f"{run}/schedule/").body
            shown = {name: schedule[name] for name in answer["schedule"]}
            compared += same(slug, on_named_servers(shown), on_named_servers(answer["schedule"]))
    assert len(generations) == len(CHOICES) + len(OPTIONS)
    print(f"{compared} values of {len(generations)} decisions compared")


def part(row):
    """What an allocation row says in either answer; a run knows its workloads' ids besides."""
    return (row["tenant"], row["workload"]["name"], *(row[name] for name in IN_BOTH))


def on_servers(rows):
    """Tasks by workload and server; a range has its tasks on every server from first to last."""
    tasks = {}
    for row in rows:
        servers = row.get("servers", {"first": row.get("server"), "last": row.get("server")})
        names = [name_of(servers[end]) for end in ("first", "last")]
        key = (row["tenant"], row["workload"]["name"], *names)
        assert key not in tasks
        tasks[key] = (row["tasks"], row["resources"])
    return sorted(tasks.items())


def on_named_servers(item):
    """The same document, with the servers of slots by the names of the pool."""
    if isinstance(item, dict):
        return {
            key: name_of(value) if key == "server" and value else on_named_servers(value)
            for key, value in item.items()
        }
    return list(map(on_named_servers, item)) if isinstance(item, list) else item


def name_of(server):
    """The pool's name of a server.

    An input calls a row of servers `node-0001` after its first one, and an evaluation numbers those.
    """
    return server.replace("node-0001-", "node-")


def same(slug, served, evaluated):
    """Assert that both are the same JSON, `4` and `4.0` told apart; return how many values it has."""
    served, evaluated = (json.loads(json.dumps(list_or(each))) for each in (served, evaluated))
    texts = [json.dumps(each, indent=1, sort_keys=True) for each in (served, evaluated)]
    assert texts[0] == texts[1], slug
    return values(served)


def list_or(item):
    return item if isinstance(item, dict | list) else list(item)


def values(item):
    """How many numbers, texts and nulls a document has."""
    if isinstance(item, dict):
        item = item.values()
    return sum(map(values, item)) if not isinstance(item, str | int | float | type(None)) else 1
