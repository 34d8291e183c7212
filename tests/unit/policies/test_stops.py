"""The verifier's reasons for which workloads of whole tasks stopped, against the plain definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.verification import stops
from policies.verification.stops import NOTHING, Room


def plainly_blocking(room, demand):
    """The same, one workload and one server at a time."""
    found = []
    for allowed, needs in zip(room.allowed.tolist(), demand.tolist(), strict=True):
        here = [
            (sum(a * u for a, u in zip(left, room.unit.tolist(), strict=True)), left)
            for left, kind in zip(room.left.tolist(), room.kind.tolist(), strict=True)
            if allowed[kind]
        ]
        nowhere = [
            r for r, need in enumerate(needs) if not any(left[r] >= need for _, left in here)
        ]
        if nowhere:
            found.append(nowhere[0])
        elif any(all(a >= b for a, b in zip(left, needs, strict=True)) for _, left in here):
            found.append(NOTHING)
        else:
            emptiest = max(here, key=lambda each: each[0])[1]  # the first of several
            found.append(next(r for r, need in enumerate(needs) if need > emptiest[r]))
    return found


@st.composite
def rooms(draw):
    servers, kinds = draw(st.integers(0, 12)), draw(st.integers(1, 3))
    m, n = draw(st.integers(1, 3)), draw(st.integers(0, 8))
    amounts = st.integers(0, 4).map(float)

    def table(rows, columns, each, dtype):
        cells = st.lists(each, min_size=rows * columns, max_size=rows * columns)
        return np.array(draw(cells), dtype=dtype).reshape(rows, columns)

    room = Room(
        left=table(servers, m, amounts, np.float64),
        kind=table(servers, 1, st.integers(0, kinds - 1), np.int64)[:, 0],
        allowed=table(n, kinds, st.booleans(), np.bool_),
        unit=table(m, 1, st.sampled_from([0.0, 0.125, 0.5]), np.float64)[:, 0],
    )
    return room, table(n, m, st.integers(0, 5).map(float), np.float64)


@pytest.mark.parametrize(("cells", "largest"), [(1, 1_000), (20, 2), (1 << 20, 0)])
@given(drawn=rooms())
def test_what_blocks_is_what_the_definition_says(cells, largest, drawn):
    room, demand = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stops, "_CELLS", cells)
        patch.setattr(stops, "_MOST_LARGEST", largest)
        assert room.blocking(demand).tolist() == plainly_blocking(room, demand)
