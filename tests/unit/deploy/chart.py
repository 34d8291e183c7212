"""Renders the chart with the real helm, which needs no cluster for it."""

import functools
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.deploy.environment import ROOT

CHART = ROOT / "deploy" / "chart"
AGENT_CHART = ROOT / "deploy" / "agent-chart"
Thing = dict[str, Any]
# There is a wheel for these machines only; where there is one, a missing helm is a failure.
HAS_HELM = (sys.platform, platform.machine()) == ("linux", "x86_64")
needs_helm = pytest.mark.skipif(not HAS_HELM, reason="no wheel of helm for this machine")


class _Once(yaml.SafeLoader):
    """Refuses a key that is there twice, of which the others take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key is there twice: {keys}"
        return super().construct_mapping(node, deep)


def helm(*arguments: str | Path, values: Thing | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm, with a file of values if there are some, and without anybody's settings."""
    program = Path(sys.executable).with_name("helm")
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "values.yaml"
        file.write_text(json.dumps(values, ensure_ascii=False))
        command: list[str | Path] = [program, *arguments]
        if values:
            command += ["--values", file]
        return subprocess.run(
            command,
            env={"HOME": home, "PATH": "/usr/bin:/bin"},
            cwd=ROOT,
            capture_output=True,
            text=True,
        )


def rendered(
    values: Thing | None = None, *, release: str = "allocator", chart: Path = CHART
) -> list[Thing]:
    """The objects of the chart with these values over its own."""
    return _rendered(json.dumps(values or {}), release, chart)


@functools.cache
def _rendered(values: str, release: str, chart: Path) -> list[Thing]:
    done = helm("template", release, chart, values=json.loads(values))
    assert (done.returncode, done.stderr) == (0, "")
    return [thing for thing in yaml.load_all(done.stdout, _Once) if thing]


def refused(values: Thing, *, release: str = "allocator", chart: Path = CHART) -> str:
    """What helm says against these values."""
    done = helm("template", release, chart, values=values)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def of_kind(things: list[Thing], kind: str) -> list[Thing]:
    return [thing for thing in things if thing["kind"] == kind]


def the(things: list[Thing], kind: str) -> Thing:
    (found,) = of_kind(things, kind)
    return found


def deployments(things: list[Thing]) -> dict[str, Thing]:
    """The deployments by the name of their process."""
    return {
        thing["metadata"]["labels"]["app.kubernetes.io/component"]: thing
        for thing in of_kind(things, "Deployment")
    }


def pod_of(thing: Thing) -> Thing:
    spec: Thing = thing["spec"]["template"]["spec"]
    return spec


def container_of(thing: Thing) -> Thing:
    container: Thing
    (container,) = pod_of(thing)["containers"]
    return container


def secrets_of(thing: Thing) -> list[str]:
    sources = container_of(thing)["envFrom"]
    return [source["secretRef"]["name"] for source in sources if "secretRef" in source]


def variables_of(thing: Thing) -> dict[str, str]:
    """The variables that a container has values for, as Kubernetes gives them to it."""
    given = container_of(thing)["env"]
    return {each["name"]: expanded(each["value"]) for each in given if "value" in each}


def expanded(value: str) -> str:
    """A variable's value as containers see it: `$$` is a dollar; unknown references stay as they are."""
    return "$".join(value.split("$$"))
