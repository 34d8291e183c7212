"""What the chart makes around the processes: what leads to them, watches them and keeps others out."""

import re
import subprocess

import yaml
from django.core.management import get_commands, load_command_class
from django.http.request import split_domain_port, validate_host

from tests.unit.deploy.chart import (
    CHART,
    container_of,
    deployments,
    helm,
    needs_helm,
    of_kind,
    pod_of,
    rendered,
    the,
    variables_of,
)
from tests.unit.deploy.watching import ALERTS
from tests.unit.deploy.ways import WAYS, objects, pods_of

pytestmark = needs_helm


def test_an_ingress_leads_every_host_to_web():
    things = objects("behind an ingress")
    ingress = the(things, "Ingress")["spec"]
    assert ingress["tls"] == [
        {"secretName": "shares-tls", "hosts": ["shares.example.org", "shares.example.com"]}
    ]
    backend = {"service": {"name": "allocator", "port": {"name": "http"}}}
    assert ingress["rules"] == [
        {"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
        for host in ("shares.example.org", "shares.example.com")
    ]
    data = the(things, "ConfigMap")["data"]
    assert data["ALLOWED_HOSTS"] == "localhost,shares.example.org,shares.example.com"
    assert data["CSRF_TRUSTED_ORIGINS"] == "https://shares.example.org,https://shares.example.com"
    selector = the(things, "Service")["spec"]["selector"]
    labels = deployments(things)["web"]["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items()
    assert container_of(deployments(things)["web"])["ports"] == [
        {"name": "http", "containerPort": 8000}
    ]


def test_prometheus_may_ask_each_web_pod_by_its_address():
    things = objects("watched and closed")
    monitor = the(things, "ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    labels = the(things, "Service")["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("http", "/metrics")
    assert endpoint["authorization"] == {
        "credentials": {"name": "allocator", "key": "METRICS_TOKEN"}
    }
    web = deployments(things)["web"]
    for address, asked in (("10.2.3.4", "10.2.3.4:8000"), ("fd00::7", "[fd00::7]:8000")):
        hosts = variables_of(web)["ALLOWED_HOSTS"].replace("$(POD_IP)", address).split(",")
        assert validate_host(split_domain_port(asked)[0], hosts)
        assert validate_host("allocator.example.org", hosts)
        assert not validate_host("10.2.3.5", hosts)


def test_the_alerts_of_the_chart_are_those_that_promtool_takes_and_find_the_monitored_job():
    things = objects("watched and closed")
    rules = the(things, "PrometheusRule")["spec"]
    assert rules == yaml.safe_load(ALERTS.read_text())
    (relabeling,) = the(things, "ServiceMonitor")["spec"]["endpoints"][0]["relabelings"]
    (down,) = [each for each in rules["groups"][0]["rules"] if each["alert"] == "AllocatorDown"]
    assert down["expr"] == f'up{{job="{relabeling["replacement"]}"}} == 0'


def test_a_closed_network_leaves_the_port_of_web():
    every, web, servers, webhooks = of_kind(objects("watched and closed"), "NetworkPolicy")
    assert every["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in every["spec"]
    assert "egress" not in every["spec"]
    ports = [rule["port"] for each in servers["spec"]["egress"] for rule in each["ports"]]
    assert ports == [53, 53, 5432, 6379]
    assert webhooks["spec"]["egress"] == [{"ports": [{"port": 443}]}]
    sender = deployments(objects("watched and closed"))["sender"]["spec"]["template"]["metadata"]
    assert webhooks["spec"]["podSelector"]["matchLabels"].items() <= sender["labels"].items()
    assert web["spec"]["ingress"] == [
        {"ports": [{"port": "http"}], "from": [{"namespaceSelector": {}}]}
    ]
    closed = every["spec"]["podSelector"]["matchLabels"].items()
    for thing in pods_of(objects("watched and closed")):
        assert closed <= thing["spec"]["template"]["metadata"]["labels"].items()


def test_a_service_account_is_made_and_used_or_the_named_one_is():
    things = objects("watched and closed")
    assert the(things, "ServiceAccount")["metadata"]["name"] == "allocator"
    used = {pod_of(each)["serviceAccountName"] for each in deployments(things).values()}
    assert used == {"allocator"}
    named = rendered({"serviceAccount": {"name": "known"}})
    assert of_kind(named, "ServiceAccount") == []
    assert {pod_of(each)["serviceAccountName"] for each in pods_of(named)} == {"known"}


def test_the_commands_that_helm_tells_are_commands_of_ours(tmp_path):
    told = notes(tmp_path, {})
    commands = re.findall(r"python manage\.py (\w+)(.*)", told)
    assert [name for name, _ in commands] == ["apikey", "createsuperuser"]
    for name, rest in commands:
        load_command_class(get_commands()[name], name).create_parser("manage.py", name).parse_args(
            rest.split()
        )
    assert "deployment/allocator-web" in told
    assert "TLS for\nallocator.example.org" in told
    behind = notes(tmp_path, WAYS["behind an ingress"])
    assert "It is reached at https://shares.example.org/ https://shares.example.com/." in behind


def notes(folder, values):
    """What helm says after an installation: without a cluster it shows that to a template only."""
    chart = folder / "chart"
    if not chart.exists():
        subprocess.run(["cp", "-r", CHART, chart], check=True)
        show = '{{ include "allocator/templates/NOTES.txt" . | toJson }}'
        (chart / "templates" / "shown.yaml").write_text(f"notes: {show}\n")
    done = helm(
        "template", "allocator", chart, "--show-only", "templates/shown.yaml", values=values
    )
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)["notes"]
