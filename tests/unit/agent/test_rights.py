"""The table of rights has every verb that the agent sends to an API server, and no other."""

import threading
import time

import pytest

from allocator_agent.configuration import Configuration, KubernetesOptions
from allocator_agent.kubernetes.api import Api
from allocator_agent.kubernetes.orchestrating import EffectiveKueue
from allocator_agent.kubernetes.rights import rights_of
from allocator_agent.kubernetes.scheduler import Kubernetes
from tests.unit.agent.kubernetes_server import KubernetesServer
from tests.unit.agent.kueue_crds import kueue_schemas
from tests.unit.agent.test_kubernetes import (
    COHORTS,
    NOW,
    QUEUES,
    cohort,
    decision,
    in_cohort,
    quota,
)

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
FLAVOR = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ResourceFlavor",
    "metadata": {"name": "big", "labels": {"allocator.pool": "lab"}},
    "spec": {"nodeLabels": {"kind": "big"}},
}


@pytest.fixture
def server():
    running = KubernetesServer()
    running.put("/api/v1/namespaces", {"metadata": {"name": "a"}})
    yield running
    running.stop()


def verbs_of(server):
    """Return the verbs of all requests by resource, as a role names them."""

    def name(path):
        words = path.strip("/").split("/")
        group, rest = ("", words[2:]) if words[0] == "api" else (words[1], words[3:])
        rest = rest[2:] if rest[0] == "namespaces" and len(rest) > 2 else rest
        part = f"/{rest[2]}" if len(rest) > 2 else ""
        return f"{rest[0]}{part}" + (f".{group}" if group else "")

    asked = {(method.lower(), name(path)) for method, path in server.requests}
    return asked | {(VERBS[method], name(path)) for method, path, _ in server.writes}


def allowed(scheduler, *, effective=False, has_groups=False):
    rights = rights_of(scheduler, effective=effective, has_groups=has_groups)
    return {(verb, right.name) for right in rights for verb in right.verbs}


def run(server, tmp_path, scheduler, *decisions, effective=False):
    """Follow the server and apply decisions, as rounds do."""
    token = tmp_path / "token"
    token.write_text(server.TOKEN)
    options = KubernetesOptions(
        api=server.url, token_file=token, quotas="effective" if effective else "spec"
    )
    configuration = Configuration(
        url="http://x", pool="lab", key="k", name="agent", scheduler=scheduler, kubernetes=options
    )
    made = (EffectiveKueue if effective else Kubernetes)(configuration, Api(options))
    stopped = threading.Event()
    made.follow(stopped, threading.Event())
    for each in decisions:
        plan = made.plan(each, made.observe(), NOW)
        assert (made.apply(plan), plan.problems) == ([], {})
        made.applied(made.observe(), fresh=True)
        made.listed(QUEUES if scheduler == "kueue" else "/api/v1/resourcequotas")
    deadline = time.monotonic() + 10
    lists = {path for method, path in server.requests if method == "LIST"}
    while not all(server.watches(path) for path in lists) and time.monotonic() < deadline:
        time.sleep(0.02)
    stopped.set()


@pytest.mark.parametrize("has_groups", [False, True])
def test_kueue_with_quotas_in_specs(server, tmp_path, has_groups):
    first, second = [FLAVOR], [{**FLAVOR, "spec": {"nodeLabels": {"kind": "huge"}}}]
    if has_groups:
        first += [cohort("labs"), cohort("old"), in_cohort("a", "old")]
        second += [cohort("labs", "elsewhere"), in_cohort("a", "labs", "2")]
    else:
        first.append(in_cohort("a", ""))
        second.append(in_cohort("a", "", "2"))
        for item in (first[-1], second[-1]):
            del item["spec"]["cohortName"], item["metadata"]["annotations"]
    run(server, tmp_path, "kueue", decision(*first), decision(*second))
    assert verbs_of(server) == allowed("kueue", has_groups=has_groups)


@pytest.mark.parametrize("has_groups", [False, True])
def test_kueue_with_effective_quotas(server, tmp_path, has_groups):
    server.schemas = kueue_schemas()
    queue = in_cohort("a", "labs")
    server.put(QUEUES, queue)
    groups = queue["spec"]["resourceGroups"]
    rendered = [{**queue, "status": {"effectiveQuotas": {"resourceGroups": groups}}}]
    if has_groups:
        server.put(COHORTS, cohort("labs"))
        rendered.append({**cohort("labs"), "status": {"effectiveQuotas": {"resourceGroups": []}}})
    run(server, tmp_path, "kueue", decision(*rendered), effective=True)
    assert verbs_of(server) == allowed("kueue", effective=True, has_groups=has_groups)


def test_resource_quotas(server, tmp_path):
    first, second = decision(quota("a", "2")), decision(quota("a", "3"))
    run(server, tmp_path, "kubernetes", first, second)
    assert verbs_of(server) == allowed("kubernetes")
