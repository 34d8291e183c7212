"""What the tests of reproduced tables and figures read off a finding, and a file that some need."""

import json
import re

from papers import reproduce
from papers.hmrf_cluster import FILE


def ours(name, data=None):
    return {row.what: row.ours for row in reproduce(name, data).rows}


def claims(finding):
    return {row.what: row.ours for row in finding.rows if row.paper == "yes"}


def check_form(finding):
    assert not re.search(r"\bnan\b", json.dumps(finding.to_document(), allow_nan=False))
    assert finding.figures
    for figure in finding.figures:
        for line in figure.lines:
            assert len(line.x) == len(line.y) > 0


def swim_file(folder):
    """Forty jobs, one each ten seconds, as SWIM has them; returns the folder."""
    path = folder / FILE
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"job{i}\t{10 * i}\t10\t0\t0\t0\n" for i in range(40)))
    return folder
