"""A statement in `alloc statement`."""

import pytest

from allocator_client.cli.using import _show_statement

STATEMENT = {
    "pool": "lab", "tenant": "ada", "month": "2027-03", "state": "closed", "currency": "EUR",
    "timezone": "Europe/Berlin", "lines": [], "totals": {"billed": "8.90"},
    "savings": {"saved": None, "why": None}, "notes": [],
}  # fmt: skip


@pytest.mark.parametrize("clusters", [None, []])
def test_a_statement_without_clusters_states_none(capsys, clusters):
    _show_statement(STATEMENT if clusters is None else {**STATEMENT, "clusters": clusters})
    assert "CLUSTER" not in capsys.readouterr().out


def test_a_statement_has_the_hours_of_each_cluster(capsys):
    clusters = [
        {"cluster": "east", "hours": {"cpu": "80", "gpu": "2"}},
        {"cluster": None, "hours": {"cpu": "3"}},
    ]
    _show_statement({**STATEMENT, "clusters": clusters})
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    at = printed.index(["CLUSTER", "RESOURCE", "HOURS"])
    assert printed[at + 1 :] == [
        ["east", "cpu", "80"], ["east", "gpu", "2"], ["not", "known", "cpu", "3"],
    ]  # fmt: skip
