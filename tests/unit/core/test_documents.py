"""Documents as bytes."""

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from allocator_service.core.documents import canonical_bytes

NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    # Where the two writers differ: below a thousandth.
    st.floats(1e-12, 1e-3),
    st.builds(lambda digit, power: digit * 10.0**-power, st.integers(-12, 12), st.integers(0, 30)),
)
TEXTS = st.text() | st.sampled_from(['", 0.00001, "', "1e-7", ":0.00005,", "é\u2028", "a\\b"])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


@given(VALUES)
@example({"a": 1e-5, "b,0.00001": [-1.5e-7, 10.00001, 1e-10, -0.0]})
def test_canonical_bytes_are_those_of_the_standard_library(document):
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert canonical_bytes(document) == text.encode()


@pytest.mark.parametrize("power", range(-30, 30))
def test_each_power_of_ten_and_its_neighbours(power):
    number = 10.0**power
    near = [math.nextafter(number, 0), number, math.nextafter(number, math.inf), -number]
    assert canonical_bytes(near) == json.dumps(near, separators=(",", ":")).encode()
