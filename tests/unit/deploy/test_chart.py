"""The chart makes objects of Kubernetes that run what the launcher runs with what the settings read."""

import os
import re
import subprocess
import sys

import kubernetes_validate
import pytest
import yaml
from django.http.request import validate_host

from allocator_service import __version__
from allocator_service.core.worker import pulse
from tests.unit.deploy.chart import (
    CHART,
    container_of,
    deployments,
    helm,
    needs_helm,
    of_kind,
    pod_of,
    rendered,
    secrets_of,
    the,
    variables_of,
)
from tests.unit.deploy.environment import (
    COMPONENTS,
    READ_BY_LIBRARIES,
    ROOT,
    comparable,
    documented,
    variables_read_by_the_settings,
)
from tests.unit.deploy.ways import AUTHORITY, DIGEST, WAYS, objects, pods_of

pytestmark = needs_helm
SIGNING = [name for name, each in COMPONENTS.items() if each.silence_seconds is not None]
SECRETS = {
    "SECRET_KEY", "DATABASE_URL", "REDIS_URL", "METRICS_TOKEN", "MIGRATION_DATABASE_URL",
    "ALLOCATOR_OIDC_CLIENT_SECRET", "EMAIL_URL",
}  # fmt: skip
EVERY_WAY = pytest.mark.parametrize("way", WAYS)


@EVERY_WAY
def test_helm_takes_the_chart_and_every_object_is_one_of_kubernetes(way):
    linted = helm("lint", "--strict", CHART, values=WAYS[way])
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "[WARNING]" not in linted.stdout
    for thing in objects(way):
        if thing["apiVersion"] != "monitoring.coreos.com/v1":  # the operator's, not of Kubernetes
            kubernetes_validate.validate(thing, "1.31", strict=True)


@EVERY_WAY
def test_a_container_writes_to_its_volumes_only(way):
    for thing in pods_of(objects(way)):
        container = container_of(thing)
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert "/tmp" in {each["mountPath"] for each in container["volumeMounts"]}
        volumes = {each["name"] for each in pod_of(thing)["volumes"]}
        assert {each["name"] for each in container["volumeMounts"]} <= volumes


@EVERY_WAY
def test_there_is_a_deployment_for_every_process(way):
    assert deployments(objects(way)).keys() == COMPONENTS.keys()


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_deployment_and_the_launcher_run_the_same_command(name):
    container = container_of(deployments(objects())[name])
    assert comparable(container["command"]) == comparable([*COMPONENTS[name].command])
    assert {"name": "ALLOCATOR_PROCESS", "value": name} in container["env"]


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_process_gets_the_time_it_needs_to_finish(name):
    granted = pod_of(deployments(objects())[name])["terminationGracePeriodSeconds"]
    assert granted == COMPONENTS[name].patience_seconds + (5 if name == "web" else 0)


def test_a_web_pod_that_leaves_answers_until_the_cluster_knows():
    hooks = {
        name: container_of(each).get("lifecycle") for name, each in deployments(objects()).items()
    }
    assert hooks.pop("web") == {"preStop": {"exec": {"command": ["sleep", "5"]}}}
    assert set(hooks.values()) == {None}


@EVERY_WAY
def test_a_pod_has_no_rights_and_sets_nothing_that_nobody_reads(way):
    known = variables_read_by_the_settings() | READ_BY_LIBRARIES
    added = {each["name"] for each in WAYS[way].get("pods", {}).get("extraEnv", [])}
    for thing in pods_of(objects(way)):
        assert pod_of(thing)["securityContext"]["runAsNonRoot"] is True
        assert pod_of(thing)["automountServiceAccountToken"] is False
        container = container_of(thing)
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        names = [variable["name"] for variable in container["env"]]
        assert len(names) == len(set(names))
        assert set(names) - added - {"POD_IP"} <= known


def test_the_configuration_has_the_documented_defaults_and_no_secret():
    data = the(objects(), "ConfigMap")["data"]
    assert data.keys() & SECRETS == set()
    own = {"ALLOWED_HOSTS", "CSRF_TRUSTED_ORIGINS", "DJANGO_SETTINGS_MODULE"}
    defaults = documented()
    assert {name: data[name] for name in data.keys() - own} == {
        name: defaults[name] for name in data.keys() - own
    }


def test_what_may_be_changed_elsewhere_may_be_changed_here():
    text = (ROOT / ".env.example").read_text()
    (section,) = re.findall(r"# --- What may be changed -+\n(.*?)# ---", text, re.DOTALL)
    changeable = set(re.findall(r"^([A-Z_]+)=", section, re.MULTILINE))
    # In a secret, `service.port`, and `resources` of each process; PostgreSQL and Redis are elsewhere.
    servers = {name for name in changeable if name.startswith(("POSTGRES_", "REDIS_"))}
    elsewhere = SECRETS | servers | {"PORT", "MEMORY_LIMIT"}
    assert the(objects(), "ConfigMap")["data"].keys() >= changeable - elsewhere


@EVERY_WAY
def test_the_migration_runs_first_with_the_same_configuration_and_nothing_else_of_the_release(way):
    job = the(objects(way), "Job")
    hook = job["metadata"]["annotations"]
    assert hook["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert hook["helm.sh/hook-delete-policy"] == "before-hook-creation"
    assert [source for source in container_of(job)["envFrom"] if "configMapRef" in source] == []
    assert "serviceAccountName" not in pod_of(job)
    data = the(objects(way), "ConfigMap")["data"]
    given = variables_of(job)
    assert {name: given[name] for name in data} == data
    assert given["ALLOCATOR_PROCESS"] == "manage"
    assert container_of(job)["command"] == ["python", "manage.py", "migrate", "--no-input"]


def test_only_the_migration_knows_the_owner_of_the_tables():
    things = rendered({"existingSecret": "mine", "existingMigrationSecret": "owners"})
    assert secrets_of(the(things, "Job")) == ["mine", "owners"]
    for deployment in deployments(things).values():
        assert secrets_of(deployment) == ["mine"]


@pytest.mark.parametrize("name", SIGNING)
def test_a_process_is_replaced_by_its_sign_of_life(name):
    container = container_of(deployments(objects())[name])
    file, seconds = f"/tmp/{name}-pulse", f"{COMPONENTS[name].silence_seconds:.0f}"
    for probe in ("startupProbe", "livenessProbe"):
        command = ["python", "-m", pulse.__name__, file, seconds]
        assert container[probe]["exec"]["command"] == command
    assert {"name": "PULSE_FILE", "value": file} in container["env"]


def test_a_web_pod_is_asked_for_its_health_under_a_name_that_it_takes():
    things = objects("behind an ingress")
    container = container_of(deployments(things)["web"])
    paths = {
        probe: container[probe]["httpGet"]["path"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert paths == {
        "startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"
    }  # fmt: skip
    hosts = the(things, "ConfigMap")["data"]["ALLOWED_HOSTS"].split(",")
    for probe in paths:
        (header,) = container[probe]["httpGet"]["httpHeaders"]
        assert header["name"] == "Host"
        assert validate_host(header["value"], hosts)


def test_there_are_two_of_every_process_and_a_node_that_is_emptied_leaves_one():
    found = deployments(objects())
    assert {name: each["spec"]["replicas"] for name, each in found.items()} == dict.fromkeys(
        COMPONENTS, 2
    )
    budgets = of_kind(objects(), "PodDisruptionBudget")
    assert [each["spec"]["maxUnavailable"] for each in budgets] == [1] * len(found)
    selected = [each["spec"]["selector"]["matchLabels"] for each in budgets]
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in found.values()]
    assert sorted(map(sorted_items, selected)) == sorted(map(sorted_items, labels))


def sorted_items(labels):
    return sorted(labels.items())


def test_as_many_of_a_process_run_as_are_asked_for():
    found = deployments(objects("one of each, no backtests"))
    replicas = {name: each["spec"]["replicas"] for name, each in found.items()}
    assert replicas == {**dict.fromkeys(COMPONENTS, 1), "backtests": 0}


def test_chart_service_and_image_have_one_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    images = {container_of(thing)["image"] for thing in pods_of(objects())}
    assert images == {f"allocator-service:{__version__}"}


def test_a_digest_decides_which_image_it_is():
    for thing in pods_of(objects("from a registry of one's own")):
        assert container_of(thing)["image"] == f"registry.example.org:5000/a/allocator@{DIGEST}"
        assert pod_of(thing)["imagePullSecrets"] == [{"name": "registry"}]


def test_what_a_process_says_replaces_what_all_pods_have():
    found = deployments(objects("on nodes of one's own"))
    worker, backtests = pod_of(found["worker"]), pod_of(found["backtests"])
    assert worker["nodeSelector"] == {"pool": "services"}
    assert len(worker["tolerations"]) == len(worker["topologySpreadConstraints"]) == 1
    assert backtests["nodeSelector"] == {"pool": "batch"}
    assert "podAntiAffinity" in backtests["affinity"]
    assert backtests.keys() & {"tolerations", "topologySpreadConstraints"} == set()
    for each in found.values():
        metadata = each["spec"]["template"]["metadata"]
        assert metadata["labels"]["team"] == "platform"
        assert metadata["annotations"]["linkerd.io/inject"] == "enabled"
        assert AUTHORITY in pod_of(each)["volumes"]
        assert pod_of(each)["priorityClassName"] == "high"


def test_the_pods_of_a_process_are_spread_over_nodes():
    for each in deployments(objects()).values():
        (spread,) = pod_of(each)["topologySpreadConstraints"]
        assert spread["labelSelector"]["matchLabels"] == each["spec"]["selector"]["matchLabels"]


@pytest.mark.parametrize(
    ("values", "replaced"),
    [
        ({"configuration": {"LOG_LEVEL": "DEBUG"}}, True),
        ({"hosts": ["other.example.org"]}, True),
        ({"service": {"port": 8080}}, False),
    ],
    ids=["a variable", "a host", "nothing of the configuration"],
)
def test_pods_are_replaced_when_the_configuration_changed(values, replaced):
    before, after = deployments(objects()), deployments(rendered(values))
    same = {name for name in COMPONENTS if before[name]["spec"] == after[name]["spec"]}
    assert same == (set() if replaced else COMPONENTS.keys())


@pytest.mark.parametrize("way", ["as it is", "behind an ingress", "with OpenID Connect"])
def test_the_production_settings_accept_what_the_chart_gives_them(way, tmp_path):
    things = objects(way)
    job, data = the(things, "Job"), the(things, "ConfigMap")["data"]
    secret = tmp_path / "secret"
    secret.write_text("hush")
    given = {**data, **variables_of(job), "SECRET_KEY": "aB3x" * 16, "METRICS_TOKEN": "aB3x" * 8}
    if given["ALLOCATOR_OIDC_CLIENT_SECRET_FILE"]:
        given["ALLOCATOR_OIDC_CLIENT_SECRET_FILE"] = str(secret)
    given |= {
        "DATABASE_URL": "postgresql://allocator:x@db.example.org/allocator",
        "MIGRATION_DATABASE_URL": "postgresql://owner:x@db.example.org/allocator",
        "REDIS_URL": "redis://redis.example.org:6379/0",
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "ERROR"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **given},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
