"""The session of docs/guides/coming-from.md runs as it stands and prints what the page shows."""

import re

from tests.guides import GUIDES, run_guide


def test_the_session_of_the_guide_prints_what_it_shows(service, tmp_path):
    key = service.manage("apikey", "create", "--scope", "operator", "--name", "coming-from-guide")
    printed = run_guide("coming-from.md", service=service, folder=tmp_path, KEY=key)
    lines = [line.rstrip() for line in printed.splitlines()]
    assert [line for line in lines if '"errors":[' in line] == []
    shown = re.findall(r"^```text\n(.*?)^```", (GUIDES / "coming-from.md").read_text(), re.M | re.S)
    assert len(shown) == 4
    for block in shown[:3]:
        wanted = block.splitlines()
        start = lines.index(wanted[0])
        assert lines[start : start + len(wanted)] == wanted
    assert "{'added': 6, 'changed': 0, 'unchanged': 0, 'refused': 0, 'skipped': 3}" in lines
    assert shown[3].startswith("kind,slug,name,parent,weight\n")
