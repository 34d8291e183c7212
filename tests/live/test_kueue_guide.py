"""The session of docs/guides/kueue.md runs as it stands, and prints what the page shows."""

import json
import os
import sys
from pathlib import Path

import pytest

from launcher.folders import PROJECT
from tests.guides import GUIDES, run_steps
from tests.unit.agent.kubernetes_server import KubernetesServer
from tests.unit.deploy.chart import HAS_HELM

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
    (tmp_path / "deploy").symlink_to(PROJECT / "deploy")
    changes = {"api = http://localhost:8001": f"api = {kubernetes.url}\ntoken_file = {token}"}
    if not HAS_HELM:
        changes |= {"helm lint": "true lint", "helm template": "true template"}
    printed = run_steps(
        GUIDES / "kueue.md",
        service=service,
        folder=tmp_path,
        # `kubectl proxy` adds the reader's credentials; here they are the agent's.
        changes=changes,
        KEY=key,
        PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    )
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
    state = next(text for text in printed if text.startswith('{"pool":'))
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
