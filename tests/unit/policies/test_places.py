"""Ranges of servers in answers with whole tasks, as the verifier reads them from their sizes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from policies import Problem
from policies.verification.places import ranges_of
from tests.examples import examples


def plain_ranges(counts, offering, sizes):
    """Return row, offset and first range of each row, or None unless rows are cut into whole ranges."""
    rows, offsets, first, waiting = [], [], [-1] * len(counts), list(enumerate(sizes))
    for row in offering:
        begin = 0
        while begin < counts[row]:
            position, size = waiting.pop(0) if waiting else (-1, 0)
            if size <= 0 or begin + size > counts[row]:
                return None
            if begin == 0:
                first[row] = position
            rows.append(row)
            offsets.append(begin)
            begin += size
    return None if waiting else (rows, offsets, first)


@st.composite
def cut_rows(draw):
    """Draw numbers of servers, the rows that offer something, and sizes that mostly cut these."""
    counts = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    offering = [row for row in range(len(counts)) if draw(st.booleans())]
    sizes = []
    for row in offering:
        left = counts[row]
        while left:
            sizes.append(draw(st.integers(1, left)))
            left -= sizes[-1]
    for _ in range(draw(st.integers(0, 2))):
        if sizes:
            at = draw(st.integers(0, len(sizes) - 1))
            sizes[at] += draw(st.sampled_from([-1, 1, 2**62, -(2**62), 2**63 - 1 - sizes[at]]))
            sizes[at] = max(-(2**63), min(sizes[at], 2**63 - 1))
    return counts, offering, sizes


@examples(2000)
@given(cut_rows())
def test_ranges_are_those_of_a_walk_along_the_rows(drawn):
    counts, offering, sizes = drawn
    problem = Problem.create(
        resources=["cpu"], capacity=[[1.0]] * len(counts), server_count=counts, tenants=["a"],
        demand=[[1.0]],
    )  # fmt: skip
    found = ranges_of(problem, np.array(offering, dtype=np.int64), np.array(sizes, dtype=np.int64))
    expected = plain_ranges(counts, offering, sizes)
    if expected is None:
        assert found is None
    else:
        row, servers, offset, first = (each.tolist() for each in found)
        assert (row, offset, first) == expected
        assert servers == sizes
