"""TDA's scenarios again, some of them."""

from papers import reproduce, tda_scenarios


def test_time_division_is_never_below_drf_and_never_above_the_bound(monkeypatch):
    monkeypatch.setattr(tda_scenarios, "MOST", (3, 2, 2, 3))
    finding = reproduce("tda-fig5", None)
    found = {row.what: row.ours for row in finding.rows}
    assert found["scenarios"] == found["TDA's difference ratio is 0"] == "36"
    higher, same = "TDA's least share is higher than DRF's", "the two least shares are the same"
    assert int(found[higher]) + int(found[same]) == 36
    assert found["TDA's least share is never below DRF's"] == "yes"
    assert found["nothing exceeds the bound"] == "yes"
    assert [figure.name for figure in finding.figures] == ["tda-fig5.1", "tda-fig5.2"]
    assert [len(line.y) for figure in finding.figures for line in figure.lines] == [36] * 5
