"""The manifests are Kubernetes objects, and run what the launcher runs with what the settings read."""

import kubernetes_validate
import pytest
import yaml

from allocator_service import __version__
from allocator_service.core.worker import pulse
from tests.unit.deploy.environment import (
    COMPONENTS,
    READ_BY_LIBRARIES,
    ROOT,
    comparable,
    documented,
    variables_read_by_the_settings,
)

FOLDER = ROOT / "deploy" / "kubernetes"
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
OBJECTS = [
    thing
    for name in KUSTOMIZATION["resources"]
    for thing in yaml.safe_load_all((FOLDER / name).read_text())
]
DEPLOYMENTS = {
    thing["metadata"]["labels"]["app.kubernetes.io/component"]: thing
    for thing in OBJECTS
    if thing["kind"] == "Deployment"
}
(JOB,) = [thing for thing in OBJECTS if thing["kind"] == "Job"]
(CONFIGURATION,) = [thing for thing in OBJECTS if thing["kind"] == "ConfigMap"]
SECRETS = {"SECRET_KEY", "DATABASE_URL", "REDIS_URL", "METRICS_TOKEN", "MIGRATION_DATABASE_URL"}


def pod_of(thing):
    return thing["spec"]["template"]["spec"]


def container_of(thing):
    (container,) = pod_of(thing)["containers"]
    return container


def secrets_of(thing):
    sources = container_of(thing)["envFrom"]
    return [source["secretRef"]["name"] for source in sources if "secretRef" in source]


@pytest.mark.parametrize(
    "thing", OBJECTS, ids=lambda thing: f"{thing['kind']}-{thing['metadata']['name']}"
)
def test_it_is_an_object_of_kubernetes(thing):
    kubernetes_validate.validate(thing, "1.31", strict=True)


def test_every_file_is_in_the_kustomization():
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(KUSTOMIZATION["resources"])


def test_there_is_a_deployment_for_every_process():
    assert DEPLOYMENTS.keys() == COMPONENTS.keys()


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_deployment_and_the_launcher_run_the_same_command(name):
    container = container_of(DEPLOYMENTS[name])
    assert comparable(container["command"]) == comparable([*COMPONENTS[name].command])
    assert {"name": "ALLOCATOR_PROCESS", "value": name} in container["env"]


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_process_gets_the_time_it_needs_to_finish(name):
    granted = pod_of(DEPLOYMENTS[name])["terminationGracePeriodSeconds"]
    assert granted == COMPONENTS[name].patience_seconds


@pytest.mark.parametrize(
    "thing", [*DEPLOYMENTS.values(), JOB], ids=lambda thing: thing["metadata"]["name"]
)
def test_a_pod_has_no_rights_and_sets_nothing_that_nobody_reads(thing):
    assert pod_of(thing)["securityContext"]["runAsNonRoot"] is True
    assert pod_of(thing)["automountServiceAccountToken"] is False
    container = container_of(thing)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    known = variables_read_by_the_settings() | READ_BY_LIBRARIES
    assert {variable["name"] for variable in container["env"]} <= known


def test_the_configuration_has_the_documented_defaults_and_no_secret():
    data = CONFIGURATION["data"]
    assert data.keys() & SECRETS == set()
    own = {"ALLOWED_HOSTS", "CSRF_TRUSTED_ORIGINS", "DJANGO_SETTINGS_MODULE"}
    defaults = documented()
    assert {name: data[name] for name in data.keys() - own} == {
        name: defaults[name] for name in data.keys() - own
    }


def test_only_the_migration_knows_the_owner_of_the_tables():
    assert secrets_of(JOB) == ["allocator", "allocator-migration"]
    for deployment in DEPLOYMENTS.values():
        assert secrets_of(deployment) == ["allocator"]


def test_the_worker_is_replaced_by_its_sign_of_life():
    container = container_of(DEPLOYMENTS["worker"])
    *command, file = container["livenessProbe"]["exec"]["command"]
    assert command == ["python", "-m", pulse.__name__]
    assert {"name": "PULSE_FILE", "value": file} in container["env"]


def test_the_image_has_the_version_of_the_service():
    assert [image["newTag"] for image in KUSTOMIZATION["images"]] == [__version__]
