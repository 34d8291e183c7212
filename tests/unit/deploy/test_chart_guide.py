"""docs/guides/kubernetes.md: what it renders is rendered as it stands."""

import subprocess
import sys
from pathlib import Path

import yaml

from allocator_service import __version__
from tests.guides import GUIDES, session
from tests.unit.deploy.chart import deployments, needs_helm, of_kind, pod_of, the
from tests.unit.deploy.environment import ROOT

pytestmark = needs_helm
GUIDE = GUIDES / "kubernetes.md"


def test_the_guides_commands_render_what_it_says(tmp_path):
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", session(GUIDE)],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 chart(s) linted, 0 chart(s) failed" in done.stdout
    everything, migrate, service = (
        [thing for thing in yaml.safe_load_all((tmp_path / name).read_text()) if thing]
        for name in ("everything.yaml", "migrate.yaml", "service.yaml")
    )
    assert [thing["metadata"]["name"] for thing in migrate] == ["shares-migrate"]
    assert of_kind(service, "Job") == []
    assert identities(everything) == identities(migrate) | identities(service)
    found = deployments(service)
    assert found["web"]["spec"]["replicas"] == 3
    assert pod_of(found["backtests"])["nodeSelector"] == {"pool": "batch"}
    assert the(service, "Ingress")["spec"]["rules"][0]["host"] == "shares.example.org"


def test_the_image_that_the_guide_builds_is_the_one_that_the_chart_runs():
    assert GUIDE.read_text().count(f"allocator-service:{__version__}") == 2


def identities(things):
    return {(thing["kind"], thing["metadata"]["name"]) for thing in things}
