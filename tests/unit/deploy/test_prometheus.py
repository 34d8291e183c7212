"""Alerts and dashboard are what Prometheus takes, and ask for metrics that there are."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.debian import PROMETHEUS, Unavailable, unpacked
from tests.unit.deploy.environment import ROOT
from tests.unit.deploy.watching import ALERTS, DASHBOARD, FOLDER, RULES, watched


@pytest.fixture(scope="module")
def promtool() -> Path:
    try:
        return unpacked(PROMETHEUS) / "usr" / "bin" / "promtool"
    except Unavailable as reason:
        pytest.skip(f"no promtool: {reason}")


def test_promtool_takes_the_alerts_and_each_rings_when_it_should(promtool):
    for command in (
        ["check", "rules", ALERTS.name],
        ["test", "rules", "alerts_test.yml"],
        ["check", "config", "--syntax-only", "scrape.yml"],
    ):
        done = subprocess.run([promtool, *command], cwd=FOLDER, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_every_expression_of_the_dashboard(promtool, tmp_path):
    rules = [
        {"record": f"panel:{number}", "expr": expression}
        for number, expression in enumerate(
            target["expr"].replace("$__rate_interval", "5m")
            for panel in DASHBOARD["panels"]
            for target in panel["targets"]
        )
    ]
    file = tmp_path / "panels.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_every_alert_is_tested_silent_and_ringing():
    tests = yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]
    expected = [
        (each["alertname"], bool(each["exp_alerts"]))
        for test in tests
        for each in test["alert_rule_test"]
    ]
    names = [rule["alert"] for rule in RULES]
    assert sorted(expected) == sorted((name, rings) for name in names for rings in (False, True))


def test_the_operators_guide_names_every_metric_that_is_watched():
    guide = (ROOT / "docs" / "guides" / "operators.md").read_text()
    assert {name for name in watched() if name.removesuffix("_bucket") not in guide} == set()
