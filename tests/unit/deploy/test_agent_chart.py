"""The agent's chart renders a pod with its configuration and exactly the rights that it uses."""

import itertools

import kubernetes_validate
import pytest
import yaml

from allocator_agent.configuration import read_configuration
from allocator_agent.kubernetes.rights import rights_of
from allocator_service import __version__
from tests.unit.deploy.chart import (
    AGENT_CHART,
    container_of,
    helm,
    needs_helm,
    of_kind,
    pod_of,
    refused,
    rendered,
    the,
)

pytestmark = needs_helm
DIGEST = "sha256:" + "0123456789abcdef" * 4
WAYS = {
    "as it is": {},
    "effective quotas of a tree": {"kubernetes": {"quotas": "effective"}, "groups": True},
    "resource quotas": {"agent": {"scheduler": "kubernetes", "every": "1m", "gangs": False}},
    "an account, a registry and nodes of the site": {
        "service": {"existingSecret": "mine", "caConfigMap": "authority"},
        "image": {"repository": "registry.example.org:5000/a/agent", "digest": DIGEST},
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccount": {"create": False, "name": "theirs"},
        "accounts": {"team-a": "physics", "dept.chem": "chemistry"},
        "podLabels": {"team": "platform", "app.kubernetes.io/name": "another"},
        "podAnnotations": {"linkerd.io/inject": "enabled"},
        "nodeSelector": {"pool": "services"},
        "tolerations": [{"key": "services", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
    },
}
EVERY_WAY = pytest.mark.parametrize("way", WAYS)


def objects(way="as it is"):
    return rendered(WAYS[way], release="agent", chart=AGENT_CHART)


@EVERY_WAY
def test_helm_takes_the_chart_and_every_object_is_one_of_kubernetes(way):
    linted = helm("lint", "--strict", AGENT_CHART, values=WAYS[way])
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "[WARNING]" not in linted.stdout
    for thing in objects(way):
        kubernetes_validate.validate(thing, "1.31", strict=True)


@pytest.mark.parametrize(
    ("scheduler", "quotas", "groups", "reclaim"),
    [
        *itertools.product(["kueue"], ["spec", "effective"], [False, True], ["none", "requeue"]),
        ("kubernetes", "spec", False, "none"),
    ],
)
def test_the_role_has_exactly_the_verbs_that_the_agent_uses(scheduler, quotas, groups, reclaim):
    """`tests/unit/agent/test_rights.py` compares the agent's table with its requests."""
    values = {
        "agent": {"scheduler": scheduler, "reclaim": reclaim},
        "kubernetes": {"quotas": quotas},
        "groups": groups,
    }
    role = the(rendered(values, release="agent", chart=AGENT_CHART), "ClusterRole")
    granted = [
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    used = {
        (right.group, f"{right.resource}/{right.part}" if right.part else right.resource, verb)
        for right in rights_of(
            scheduler,
            effective=quotas == "effective",
            has_groups=groups,
            reclaims=reclaim == "requeue",
        )
        for verb in right.verbs
    }
    assert len(granted) == len(set(granted))
    assert set(granted) == used


@EVERY_WAY
def test_the_account_of_the_pod_has_the_role_and_nothing_of_the_chart_is_secret(way):
    things = objects(way)
    binding, role = the(things, "ClusterRoleBinding"), the(things, "ClusterRole")
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == "default-agent"
    (subject,) = binding["subjects"]
    deployment = the(things, "Deployment")
    assert pod_of(deployment)["serviceAccountName"] == subject["name"]
    accounts = [each["metadata"]["name"] for each in of_kind(things, "ServiceAccount")]
    assert accounts == ([] if subject["name"] == "theirs" else ["agent"])
    assert of_kind(things, "Secret") == []
    secret = {"name": "mine" if accounts == [] else "allocator-agent", "key": "key"}
    assert container_of(deployment)["env"] == [
        {"name": "ALLOCATOR_KEY", "valueFrom": {"secretKeyRef": secret}}
    ]


@EVERY_WAY
def test_one_agent_runs_without_rights_on_its_node(way):
    spec = the(objects(way), "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    pod = pod_of(the(objects(way), "Deployment"))
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@EVERY_WAY
def test_the_agent_reads_the_configuration_that_is_rendered(way, tmp_path, monkeypatch):
    monkeypatch.setenv("ALLOCATOR_KEY", "alloc_x")
    values = WAYS[way]
    file = tmp_path / "agent.ini"
    file.write_text(the(objects(way), "ConfigMap")["data"]["agent.ini"])
    read = read_configuration(file)
    assert (read.url, read.pool, read.name) == ("https://allocator.example.org", "lab", "agent")
    assert read.scheduler == values.get("agent", {}).get("scheduler", "kueue")
    assert read.gangs is values.get("agent", {}).get("gangs", True)
    assert read.kubernetes.quotas == values.get("kubernetes", {}).get("quotas", "spec")
    assert read.accounts == values.get("accounts", {})
    mounted = {
        each["mountPath"] for each in container_of(the(objects(way), "Deployment"))["volumeMounts"]
    }
    assert (read.ca_file == "/authority/ca.crt") is ("/authority" in mounted)


def test_the_check_runs_as_the_agent_and_not_with_it():
    things = objects()
    (pod,) = of_kind(things, "Pod")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    (container,) = pod["spec"]["containers"]
    running = container_of(the(things, "Deployment"))
    command = ["allocator-agent", "--config", "/configuration/agent.ini"]
    assert container["command"] == [*command, "check"]
    assert running["command"] == [*command, "--every", "15s"]
    own = ("command",)
    assert {k: v for k, v in container.items() if k not in own} == {
        k: v for k, v in running.items() if k not in own
    }
    # The Deployment must not count it among its pods.
    assert "app.kubernetes.io/name" not in pod["metadata"]["labels"]


def test_a_changed_configuration_replaces_the_pod():
    def checksum(values):
        things = rendered(values, release="agent", chart=AGENT_CHART)
        template = the(things, "Deployment")["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/configuration"]

    assert checksum({"agent": {"registerTenants": True}}) != checksum({})
    assert checksum({"priorityClassName": "high"}) == checksum({})


def test_chart_agent_and_service_have_one_version():
    chart = yaml.safe_load((AGENT_CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    image = container_of(the(objects(), "Deployment"))["image"]
    assert image == f"allocator-agent:{__version__}"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"service": {"url": "allocator.example.org"}}, "service.url: Does not match pattern"),
        ({"service": {"url": "https://a; b"}}, "service.url: Does not match pattern"),
        ({"service": {"url": "https://a\n[agent]"}}, "service.url: Does not match pattern"),
        ({"service": {"pool": "Lab"}}, "service.pool: Does not match pattern"),
        ({"service": {"existingSecret": ""}}, "service.existingSecret"),
        ({"service": {"key": "alloc_x"}}, "Additional property key is not allowed"),
        ({"agent": {"scheduler": "slurm"}}, "agent.scheduler must be one of"),
        ({"agent": {"every": "15"}}, "agent.every: Does not match pattern"),
        ({"agent": {"registerTenants": "yes"}}, "agent.registerTenants: Invalid type"),
        ({"kubernetes": {"quotas": "soft"}}, "kubernetes.quotas must be one of"),
        (
            {"agent": {"scheduler": "kubernetes"}, "kubernetes": {"quotas": "effective"}},
            "agent.scheduler",
        ),
        ({"accounts": {"team-a": "A B"}}, "accounts.team-a: Does not match pattern"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name"),
        ({"replicas": 2}, "Additional property replicas is not allowed"),
    ],
)
def test_wrong_values_are_refused_by_name(values, text):
    assert text in refused(values, release="agent", chart=AGENT_CHART)
