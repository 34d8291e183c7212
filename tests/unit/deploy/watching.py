"""What the alerts and the dashboard ask Prometheus for."""

import json
import re

import yaml

from tests.unit.deploy.environment import ROOT

FOLDER = ROOT / "deploy" / "prometheus"
ALERTS = FOLDER / "alerts.yml"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "allocator.json").read_text())
OF_PROMETHEUS = {"up"}


def metrics_of(expression: str) -> set[str]:
    """The names of the series that an expression reads."""
    bare = re.sub(r'"[^"]*"', "", expression)
    return {*re.findall(r"\ballocation_\w+", bare), *re.findall(r"\bup\b", bare)}


def expressions() -> list[str]:
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return [*(rule["expr"] for rule in RULES), *panels]


def watched() -> set[str]:
    """The metrics of the service that any of them reads."""
    return set().union(*map(metrics_of, expressions())) - OF_PROMETHEUS
