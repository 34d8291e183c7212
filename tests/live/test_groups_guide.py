"""The session of docs/guides/groups.md runs as it stands, and its decisions are those that it names."""

import re

from tests.guides import GUIDES, run_guide


def test_the_session_of_the_guide_divides_a_pool_as_it_writes(service, tmp_path):
    key = service.manage("apikey", "create", "--scope", "operator", "--name", "groups-guide")
    printed = run_guide("groups.md", service=service, folder=tmp_path, KEY=key).splitlines()
    assert [line for line in printed if '"errors":[' in line] == []
    found = [line for line in printed if re.fullmatch(r"(vision|speech|genomics) [0-9.]+", line)]
    text = (GUIDES / "groups.md").read_text()
    named = re.findall(r"^shares(?: accelerators)? +# (.+)$", text, re.MULTILINE)
    decisions = [set(line.split(", ")) for line in named]
    assert [len(each) for each in decisions] == [3, 3, 3, 3, 3, 2]
    starts = (0, 3, 6, 9, 12, 15)
    assert [set(found[start : start + 3]) for start in starts] == decisions
    assert "learning" in printed
    assert "limit:group:learning" in printed
    assert "{'gpu': 2.0}" in printed
    assert "succeeded" in printed
