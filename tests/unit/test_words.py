"""The ratchet of docs/style.md: the counts of each folder only improve."""

import ast
import time
from collections.abc import Callable

import pytest

from tests import words


@pytest.fixture(scope="module")
def counted() -> dict[str, words.Counts]:
    return words.count()


def test_no_count_is_worse_than_the_stored_one(counted):
    worse = words.rises(counted, words.stored())
    assert not worse, "docs/style.md has the words to write instead.\n" + "\n".join(worse)


def test_every_better_count_is_stored(counted):
    better = words.falls(counted, words.stored())
    assert not better, f"Keep what was gained: {words.STORE}\n" + "\n".join(better)


def test_every_folder_of_the_product_is_counted(counted):
    roots = {folder.split("/")[0] for folder in counted}
    assert roots == {*words.ROOTS, words.APPS}
    folders = {path.name for path in words.PROJECT.iterdir() if any(path.glob("**/*.py"))}
    uncounted = {name for name in folders if not name.startswith(".")} - roots
    assert uncounted <= {"tests", "deploy", "build", "dist"}, "add it to ROOTS of tests/words.py"


def test_counting_takes_a_few_times_as_long_as_parsing():
    def parse():
        for path in words.files():
            if path.suffix == ".py":
                ast.parse(path.read_text())

    assert seconds_of(words.count) < 5 * seconds_of(parse)


def seconds_of(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def test_the_page_lists_the_words():
    listed = words.retired_words()
    assert {"told", "said", "wanted", "made up", "upto", "nobody"} <= set(listed)
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("pattern", words.UNCOUNTED)
def test_what_is_not_counted_exists(pattern):
    assert list(words.PROJECT.glob(pattern.replace("*/", "**/", 1))), pattern


SOURCE = '''
"""Whoever reads: the module."""


class ToldTwice:
    """A noun phrase. Details: after it."""

    wanted_tasks = 0  # what was said of them

    def upto(self, at_hand):
        """Whether it is so; and why."""
        return f"{self.wanted_tasks} stretches", "drive.interval", told(wanted_tasks)
'''


def test_a_word_is_counted_where_it_is_defined_and_in_each_text():
    found = [
        (place.line, place.found.split("'")[1]) for place in words.Python("x.py", SOURCE).retired()
    ]
    assert sorted(found) == [
        (2, "whoever"),
        (5, "told"),
        (8, "said"),
        (8, "wanted"),
        (10, "at_hand"),
        (10, "upto"),
        (12, "stretches"),
    ]


def test_a_question_is_counted_and_a_noun_phrase_is_not():
    assert [place.line for place in words.Python("x.py", SOURCE).questions()] == [11]


def test_clauses_are_counted_in_the_first_sentence_alone_and_not_in_code():
    assert [place.line for place in words.Python("x.py", SOURCE).two_clauses()] == [2, 11]
    assert not list(words.Python("x.py", '"""Read `a: b` at 07:50."""').two_clauses())


def test_comments_are_counted_and_directives_are_not():
    python = words.Python(
        "x.py", '"""Module."""\n# why\n\na = "# no"  # noqa: X\nb = 1  # because\n'
    )
    assert (python.comment_lines, python.code_lines) == (2, 2)


def test_css_and_a_word_in_a_longer_word_are_not_counted():
    text = words.without_css("<p style='border-top: 1px'>foretold, a borderline, told_off</p>")
    (found,) = words.retired_in("x.html", text)
    assert found.startswith("'told' in ")


def test_a_word_is_kept_where_it_is_a_term():
    inner = "policies/leximin/interior_point/loops.py"
    assert not words.retired_in(inner, "border")
    assert words.retired_in("policies/leximin/rounds.py", "border")


def test_a_kept_name_in_backticks_is_not_counted_and_in_a_sentence_it_is():
    text = words.without_kept(
        "The field `owed`, the event `enforcement.settled`, ``told_at``: owed"
    )
    (found,) = words.retired_in("docs/x.md", text)
    assert found.startswith("'owed' in ")
    (place,) = words.Python("x.py", '"""`made_up` is what was made up."""').retired()
    assert place.found.startswith("'made up' in ")


def test_columns_are_kept_in_the_files_that_name_them():
    assert not words.retired_in("allocator_service/pools/recompute.py", "wanted > settled")
    assert len(words.retired_in("allocator_service/pools/services.py", "wanted > settled")) == 2


def _counts(retired: int, comments: int) -> words.Counts:
    places = tuple(words.Place("dev", line + 1, "'told' in 'told'") for line in range(retired))
    return words.Counts(places, (), (), comments, 100)


BEFORE = {"room": {"retired": 2, "questions": 0, "two_clauses": 0, "comments": 1.0}}


def test_a_rise_names_the_places():
    (message,) = words.rises({"room": _counts(3, 1)}, BEFORE)
    assert "room: retired rose from 2 to 3" in message
    assert "dev:3: 'told'" in message


def test_comments_must_not_fall_and_need_not_rise_above_three():
    (message,) = words.rises({"room": _counts(2, 0)}, BEFORE)
    assert "comments fell from 1.0 to 0.0" in message
    assert _counts(2, 40).numbers()["comments"] == 3


def test_a_better_count_is_to_be_stored():
    assert words.falls({"room": _counts(1, 2)}, BEFORE) == [
        "room: retired improved from 2 to 1",
        "room: comments improved from 1.0 to 2.0",
    ]
    assert words.falls({"room": _counts(2, 1)}, BEFORE) == []
    assert words.falls({}, BEFORE) == ["room: the folder is gone"]
