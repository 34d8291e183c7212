"""The session of docs/guides/kueue.md runs as it stands, against a small Kubernetes."""

import json

import pytest

from tests.guides import run_guide
from tests.unit.agent.kubernetes_server import KubernetesServer

QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/workloads"
TYPE = "node.kubernetes.io/instance-type"


@pytest.fixture
def kubernetes():
    running = KubernetesServer()
    yield running
    running.stop()


def test_the_guide_runs_as_it_stands(service, kubernetes, tmp_path):
    fill(kubernetes)
    key = service.manage("apikey", "create", "--scope", "operator", "--name", "kueue-guide")
    token = tmp_path / "token"
    token.write_text(kubernetes.TOKEN)
    told = run_guide(
        "kueue.md",
        service=service,
        folder=tmp_path,
        # `kubectl proxy` adds the reader's credentials; here they are the agent's.
        changes={"api = http://localhost:8001": f"api = {kubernetes.url}\ntoken_file = {token}"},
        KEY=key,
    )
    assert told.endswith("nothing would change")
    quotas = {
        name: [
            (flavor["name"], [row["nominalQuota"] for row in flavor["resources"]])
            for flavor in item["spec"]["resourceGroups"][0]["flavors"]
        ]
        for (kind, _, name), item in kubernetes.objects.items()
        if kind == QUEUES
    }
    # Eight tasks of one CPU each want to run on the four CPUs of m5.
    assert quotas == {
        "team-a": [("m5-large", ["2", "2147483648"])],
        "team-b": [("m5-large", ["2", "2147483648"])],
    }
    state = next(line for line in told.splitlines() if '"pool":"kueue"' in line.replace(" ", ""))
    assert [row["enforced"] for row in json.loads(state)["tenants"]] == [
        {"cpu": "2", "memory": "2"}
    ] * 2


def fill(kubernetes):
    """Two namespaces, a node, and four workloads of one CPU in each namespace."""
    ready = [{"type": "Ready", "status": "True"}]
    kubernetes.put(
        "/api/v1/nodes",
        {
            "metadata": {"name": "n1", "labels": {TYPE: "m5-large"}},
            "status": {"conditions": ready, "allocatable": {"cpu": "4", "memory": "16Gi"}},
        },
    )
    requests = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    for namespace in ("team-a", "team-b"):
        kubernetes.put("/api/v1/namespaces", {"metadata": {"name": namespace}})
        for number in range(4):
            kubernetes.put(
                WORKLOADS,
                {
                    "metadata": {"name": f"job-{number}", "namespace": namespace},
                    "spec": {
                        "podSets": [
                            {
                                "name": "main",
                                "count": 1,
                                "template": {"spec": {"containers": [requests]}},
                            }
                        ]
                    },
                },
            )
