"""MRFS' tables and figures again, in a small form."""

import pytest

from papers import Verdict, mrfs_fair_share, mrfs_series, reproduce
from tests.unit.papers.findings import check_form, claims


@pytest.fixture
def short_series(monkeypatch):
    monkeypatch.setattr(mrfs_series, "SECONDS", 150)
    mrfs_series.measured.cache_clear()
    yield
    mrfs_series.measured.cache_clear()


def test_every_penalty_of_table_2_comes_out():
    finding = reproduce("mrfs-table2", None)
    assert finding.verdict is Verdict.YES
    assert [row.ours for row in finding.rows] == [row.paper for row in finding.rows]
    assert finding.rows[0].ours == "0.264436581"


def test_what_the_paper_does_not_define_is_not_reproduced():
    finding = reproduce("mrfs-table1", None)
    assert finding.verdict is Verdict.NO
    assert {row.ours for row in finding.rows[:6]} == {"–"}


def test_requests_are_spread_more_evenly_with_mrfs(short_series):
    for figure in (6, 7, 8, 9):
        check_form(reproduce(f"mrfs-fig{figure}", None))
    found = claims(reproduce("mrfs-fig6", None))
    assert found["the difference is less with MRFS"] == "yes"
    measured = mrfs_series.measured()
    for side in measured.values():
        assert (side.dominant + side.other <= 1 + 1e-9).all()
        assert (side.requests.sum(axis=2) > 0).any()


def test_full_servers_give_dominant_requests_their_share(monkeypatch):
    monkeypatch.setattr(mrfs_fair_share, "SERVERS", 6)
    monkeypatch.setattr(mrfs_fair_share, "BATCHES", 2)
    finding = reproduce("mrfs-fig10", None)
    check_form(finding)
    assert claims(finding)["with MRFS 95 % or more have their fair share"] == "yes"
