"""Any interval consists of few whole buckets, each of them once."""

from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from allocator_service.ledger.amounts.totals import (
    EPOCH,
    QUARTER,
    WIDTHS,
    buckets_between,
    quarter_of,
)
from tests.examples import examples

LIMIT = 2 * 10**9 * 10**6  # microseconds: 63 years
instants = st.one_of(
    st.integers(0, LIMIT),
    st.integers(0, LIMIT // (10**6 * QUARTER)).map(lambda q: q * QUARTER * 10**6),
).map(lambda microseconds: EPOCH + timedelta(microseconds=microseconds))


@examples(500)
@given(ends=st.tuples(instants, instants).map(sorted))
def test_buckets_between_two_instants_cover_the_time_between_their_quarters_once(ends):
    spans = sorted(
        (EPOCH + timedelta(seconds=WIDTHS[part.level] * part.first),
         EPOCH + timedelta(seconds=WIDTHS[part.level] * part.last))
        for part in buckets_between(*ends)
    )  # fmt: skip
    begin, end = map(quarter_of, ends)
    if begin == end:
        assert spans == []
        return
    assert (spans[0][0], spans[-1][1]) == (begin, end)
    assert all(before[1] == after[0] for before, after in pairwise(spans))


@examples(500)
@given(ends=st.tuples(instants, instants).map(sorted))
def test_few_buckets_are_narrow(ends):
    """On either side fewer than the next wider one has, and in the middle one less than twice that."""
    for part in buckets_between(*ends):
        if part.level + 1 < len(WIDTHS):
            of = WIDTHS[part.level + 1] // WIDTHS[part.level]
            assert 0 < part.last - part.first < 2 * of
            inside = -(-part.first // of), part.last // of
            assert inside[0] >= inside[1]  # no wider one fits


def test_time_before_1970_has_none():
    assert buckets_between(EPOCH, EPOCH - timedelta(days=9999)) == []
