"""The session of docs/guides/billing.md is run as it stands, from usage to an audited statement.

An auditor's session, docs/chain.md, goes on from it.
"""

import json
from pathlib import Path

from tests.guides import run_pages

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "guides" / "billing.md", DOCS / "chain.md"]


def test_the_billing_session_runs_from_usage_to_an_audited_statement(service, tmp_path):
    keys = {
        name: service.manage("apikey", "create", "--scope", scope, "--name", f"guide-{scope}")
        for name, scope in (("KEY", "operator"), ("BILLING", "billing"))
    }
    (tmp_path / "docs").symlink_to(DOCS)
    told = run_pages(PAGES, service=service, folder=tmp_path, **keys).splitlines()
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
