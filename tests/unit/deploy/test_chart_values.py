"""Wrong values are refused by name, and strange ones arrive as they were written."""

import json
import re

import kubernetes_validate
import pytest
import yaml

from allocator_service.core.worker import pulse
from tests.unit.deploy.chart import (
    CHART,
    container_of,
    deployments,
    helm,
    needs_helm,
    of_kind,
    pod_of,
    refused,
    rendered,
    the,
    variables_of,
)

pytestmark = needs_helm
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = (CHART / "values.yaml").read_text()
STRANGE = [
    "",
    " a ",
    "1e3",
    "0x1F",
    "0o17",
    "1_000",
    "12:30:45",
    "2026-01-05",
    "yes",
    "null",
    "~",
    "- a",
    "a: b # c",
    "\"double\" and 'single'",
    "back\\slash \\n",
    "two\nlines\n",
    "\ttabbed\r\n",
    "{{ .Values.existingSecret }} {{/*",
    "$HOME $(HOME) $$ $$(HOME) $",
    "%s %!d `rm`",
    "Zürich 京 🙂",
    "x" * 5000,
]


def env(name: str, value: object) -> dict[str, object]:
    return {"pods": {"extraEnv": [{"name": name, "value": value}]}}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"processes": {"web": {"replicas": -1}}}, "processes.web.replicas: Must be greater than"),
        ({"processes": {"web": {"replicas": 1.5}}}, "processes.web.replicas: Invalid type"),
        ({"processes": {"web": {"replicas": "2"}}}, "processes.web.replicas: Invalid type"),
        ({"processes": {"wroker": {}}}, "processes: Additional property wroker is not allowed"),
        ({"processes": {"web": {"command": []}}}, "Additional property command is not allowed"),
        ({"replicas": 2}, "Additional property replicas is not allowed"),
        ({"existingSecret": ""}, "existingSecret: String length must be"),
        ({"existingSecret": None}, "existingSecret is required"),
        ({"existingSecret": "a b"}, "existingSecret: Does not match pattern"),
        ({"existingMigrationSecret": ""}, "existingMigrationSecret: String length must be"),
        ({"hosts": []}, "hosts: Array must have at least 1 items"),
        ({"hosts": ["https://shares.example.org"]}, "hosts.0: Does not match pattern"),
        ({"hosts": ["*"]}, "hosts.0: Does not match pattern"),
        ({"image": {"tag": 0.1}}, "image.tag: Invalid type. Expected: string, given: number"),
        ({"image": {"tag": "a b"}}, "image.tag: Does not match pattern"),
        ({"image": {"digest": "sha256:abc"}}, "image.digest: Does not match pattern"),
        ({"image": {"repository": ""}}, "image.repository: Does not match pattern"),
        ({"image": {"pullPolicy": "Sometimes"}}, "image.pullPolicy must be one of"),
        ({"configuration": {"LOG_LEVL": "INFO"}}, "Additional property LOG_LEVL is not allowed"),
        ({"configuration": {"LOG_LEVEL": "info"}}, "configuration.LOG_LEVEL must be one of"),
        ({"configuration": {"SECRET_KEY": "x"}}, "Additional property SECRET_KEY is not allowed"),
        ({"configuration": {"THROTTLE_BURST": 0}}, "configuration.THROTTLE_BURST: Must be greater"),
        ({"configuration": {"THROTTLE_RATE": "50"}}, "configuration.THROTTLE_RATE: Invalid type"),
        (
            {"configuration": {"ALLOCATOR_OIDC_ISSUER": "http://login.example.org"}},
            "configuration.ALLOCATOR_OIDC_ISSUER: Does not match pattern",
        ),
        (
            {"configuration": {"ALLOCATOR_OIDC_ISSUER": "https://login.example.org"}},
            "configuration.ALLOCATOR_OIDC_CLIENT_ID: String length must be",
        ),
        (env("A", 1), "pods.extraEnv.0.value: Invalid type. Expected: string, given: integer"),
        (env("A B", "1"), "pods.extraEnv.0.name: Does not match pattern"),
        (env("PULSE_FILE", "/x"), "pods.extraEnv.0.name: Must not validate"),
        ({"pods": {"nodeSelector": {"ssd": True}}}, "pods.nodeSelector.ssd: Invalid type"),
        (
            {"migrate": {"resources": {"limits": {"memory": "1GB"}}}},
            "migrate.resources.limits.memory: Does not match pattern",
        ),
        ({"service": {"port": 65536}}, "service.port: Must be less than or equal to 65535"),
        ({"service": {"type": "None"}}, "service.type must be one of"),
        ({"serviceMonitor": {"interval": "often"}}, "serviceMonitor.interval: Does not match"),
        ({"ingress": {"enabled": "yes"}}, "ingress.enabled: Invalid type. Expected: boolean"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_name(values, said):
    assert f"- {said}" in refused(values) or f": {said}" in refused(values)


@pytest.mark.parametrize("release", ["2nd", "a.b", "1"])
def test_a_release_whose_name_no_service_may_have_is_refused(release):
    assert f'the release is called \\"{release}\\"' in refused({}, release=release) or (
        f'the release is called "{release}"' in refused({}, release=release)
    )


def test_helm_takes_no_name_that_is_too_long_and_the_longest_makes_names_that_kubernetes_takes():
    assert "53" in refused({}, release="a" * 54)
    things = rendered(
        {
            "ingress": {"enabled": True},
            "networkPolicy": {"enabled": True},
            "serviceAccount": {"create": True},
        },
        release="a" * 53,
    )
    for thing in things:
        kubernetes_validate.validate(thing, "1.31", strict=True)
        assert re.fullmatch(r"[a-z][-a-z0-9]{0,62}", thing["metadata"]["name"])
        assert all(len(value) <= 63 for value in thing["metadata"]["labels"].values())


def test_two_releases_in_a_namespace_share_nothing():
    everything = {
        "ingress": {"enabled": True},
        "networkPolicy": {"enabled": True},
        "serviceAccount": {"create": True},
        "serviceMonitor": {"enabled": True},
    }
    one, other = (rendered(everything, release=name) for name in ("share", "share-web"))
    assert identities(one) & identities(other) == set()
    for mine, theirs in ((one, other), (other, one)):
        for labels in selected(mine):
            assert [name for name, pod in pods(theirs) if labels <= pod] == []
            assert [name for name, pod in pods(mine) if labels <= pod] != []


def identities(things):
    return {(thing["kind"], thing["metadata"]["name"]) for thing in things}


def selected(things):
    """The labels that each object asks for, of pods."""
    for thing in things:
        spec = thing.get("spec", {})
        if thing["kind"] == "Service":
            yield spec["selector"].items()
        elif thing["kind"] != "ServiceMonitor" and (found := spec.get("selector")):
            yield found["matchLabels"].items()
        elif thing["kind"] == "NetworkPolicy":
            yield spec["podSelector"]["matchLabels"].items()


def pods(things):
    return [
        (thing["metadata"]["name"], thing["spec"]["template"]["metadata"]["labels"].items())
        for thing in things
        if thing["kind"] in ("Deployment", "Job")
    ]


def test_a_deployment_selects_its_own_pods_only():
    things = rendered()
    for name, deployment in deployments(things).items():
        labels = deployment["spec"]["selector"]["matchLabels"].items()
        assert [found for found, pod in pods(things) if labels <= pod] == [f"allocator-{name}"]


@pytest.mark.parametrize("text", STRANGE, ids=lambda text: repr(text)[:30])
def test_a_strange_text_arrives_as_it_was_written(text):
    things = rendered(
        {
            "configuration": {"ALLOCATOR_OIDC_NAME": text},
            "pods": {"extraEnv": [{"name": "NOTE", "value": text}], "annotations": {"note": text}},
        }
    )
    assert the(things, "ConfigMap")["data"]["ALLOCATOR_OIDC_NAME"] == text
    assert variables_of(the(things, "Job"))["ALLOCATOR_OIDC_NAME"] == text
    for thing in (*deployments(things).values(), the(things, "Job")):
        kubernetes_validate.validate(thing, "1.31", strict=True)
        assert {"name": "NOTE", "value": text} in container_of(thing)["env"]  # Kubernetes' syntax
        assert thing["spec"]["template"]["metadata"]["annotations"]["note"] == text


def test_a_variable_of_a_process_wins_over_the_configuration():
    own = [{"name": "LOG_LEVEL", "value": "DEBUG"}, {"name": "WEB_CONCURRENCY", "value": "8"}]
    things = rendered({"migrate": {"extraEnv": own}, "processes": {"web": {"extraEnv": own}}})
    for thing in (deployments(things)["web"], the(things, "Job")):
        names = [each["name"] for each in container_of(thing)["env"]]
        assert (names.count("LOG_LEVEL"), names.count("WEB_CONCURRENCY")) == (1, 1)
        given = variables_of(thing)
        assert (given["LOG_LEVEL"], given["WEB_CONCURRENCY"]) == ("DEBUG", "8")
    assert "LOG_LEVEL" not in variables_of(deployments(things)["worker"])


def test_numbers_arrive_as_whole_numbers_however_large():
    things = rendered(
        {
            "configuration": {
                "THROTTLE_BURST": 10_000_000,
                "THROTTLE_RATE": 0.5,
                "RUN_RETENTION_DAYS": 1_000_000_000,
            },
            "processes": {
                "web": {
                    "replicas": 1_000_000,
                    "resources": {"limits": {"memory": 4_000_000_000}},
                    "tolerations": [{"operator": "Exists", "tolerationSeconds": 100_000_000}],
                }
            },
        }
    )
    data = the(things, "ConfigMap")["data"]
    assert (data["THROTTLE_BURST"], data["THROTTLE_RATE"]) == ("10000000", "0.5")
    assert data["RUN_RETENTION_DAYS"] == "1000000000"
    web = deployments(things)["web"]
    kubernetes_validate.validate(web, "1.31", strict=True)
    assert web["spec"]["replicas"] == 1_000_000
    assert container_of(web)["resources"] == {"limits": {"memory": 4_000_000_000},
                                              "requests": {"cpu": "500m", "memory": "1Gi"}}  # fmt: skip
    assert pod_of(web)["tolerations"][0]["tolerationSeconds"] == 100_000_000


def test_nobody_takes_the_labels_by_which_pods_are_found():
    labels = {"app.kubernetes.io/component": "web", "app.kubernetes.io/instance": "other", "a": "1"}
    own = rendered(
        {
            "pods": {"labels": labels, "annotations": {"checksum/configuration": "mine"}},
            "serviceMonitor": {"enabled": True, "labels": labels},
        }
    )
    for name, each in deployments(own).items():
        metadata = each["spec"]["template"]["metadata"]
        assert metadata["labels"]["app.kubernetes.io/component"] == name
        assert metadata["labels"]["app.kubernetes.io/instance"] == "allocator"
        assert metadata["labels"]["a"] == "1"
        assert metadata["annotations"]["checksum/configuration"] != "mine"
    (monitor,) = of_kind(own, "ServiceMonitor")
    assert monitor["metadata"]["labels"]["app.kubernetes.io/instance"] == "allocator"


def test_every_value_has_a_sentence_above_it():
    lines = VALUES.splitlines()
    keys = [
        number
        for number, line in enumerate(lines)
        if re.match(r"(  )?\w+: *\S", line)  # in a file, a mapping says it of its keys
    ]
    assert len(keys) > 50
    assert [lines[number] for number in keys if not lines[number - 1].strip().startswith("#")] == []


def test_the_schema_knows_what_the_values_have():
    values = yaml.safe_load(VALUES)
    assert SCHEMA["properties"].keys() - {"global"} == values.keys()
    for name in values.keys() - {"processes", "migrate", "hosts", "imagePullSecrets"}:
        if isinstance(values[name], dict):
            assert SCHEMA["properties"][name]["properties"].keys() == values[name].keys(), name
    of_pods = values["pods"].keys()
    process = SCHEMA["definitions"]["process"]["properties"].keys()
    assert process == of_pods | {"replicas", "resources"}
    assert SCHEMA["properties"]["migrate"]["properties"].keys() == of_pods | {"resources"}
    own = SCHEMA["definitions"]["variables"]["items"]["properties"]["name"]["not"]["enum"]
    set_by_the_chart = {
        each["name"]
        for deployment in deployments(rendered({"serviceMonitor": {"enabled": True}})).values()
        for each in container_of(deployment)["env"]
    }
    assert set(own) == set_by_the_chart


def test_a_subchart_gets_the_values_that_helm_adds():
    assert rendered({"global": {"imageRegistry": "x"}}) == rendered()


def test_the_silence_of_a_worker_is_what_the_settings_have_without_a_word():
    processes = yaml.safe_load((CHART / "processes.yaml").read_text())
    assert processes["worker"]["silenceSeconds"] == pulse.SILENCE_SECONDS


def test_plain_manifests_are_the_same_objects(tmp_path):
    done = helm("template", "allocator", CHART, "--output-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    written = [
        thing
        for path in tmp_path.rglob("*.yaml")
        for thing in yaml.safe_load_all(path.read_text())
        if thing
    ]
    assert identities(written) == identities(rendered())
