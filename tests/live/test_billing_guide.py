"""The session of docs/guides/billing.md is run as it stands, from usage to an audited statement.

An auditor's session, docs/chain.md, goes on from it.
"""

import json
import re
import subprocess
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "guides" / "billing.md", DOCS / "chain.md"]


def session(url):
    """The pages' shell lines, but for management commands, against the service at `url`."""
    text = "".join(page.read_text() for page in PAGES)
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = "".join(block for block in blocks if "manage.py" not in block)
    return lines.replace("http://localhost:8000", url)


def test_the_billing_session_runs_from_usage_to_an_audited_statement(service, tmp_path):
    keys = {
        name: service.manage("apikey", "create", "--scope", scope, "--name", f"guide-{scope}")
        for name, scope in (("KEY", "operator"), ("BILLING", "billing"))
    }
    (tmp_path / "docs").symlink_to(DOCS)
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", session(service.url)],
        env={**service.environment, **keys},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ran.returncode == 0, (ran.stdout[-3000:], ran.stderr)
    told = ran.stdout.splitlines()
    refused = [line for line in told if '"errors":[{' in line]
    assert len(refused) == 1, refused  # the event that was posted with other content
    statement = json.loads((tmp_path / "january.json").read_text())
    assert (statement["state"], statement["totals"]["billed"]) == ("closed", "0.70")
    assert "-0.10" in told
    digest = json.loads((tmp_path / "manifest.json").read_text())["sha256"]
    assert told.count(digest) == 2
    assert "0.70" in (tmp_path / "january.html").read_text()
    assert len((tmp_path / "january.csv").read_text().splitlines()) == 3
    assert told[-1] == "every block has the digest that its lines make"
    assert len((tmp_path / "blocks.ndjson").read_text().splitlines()) > 3
