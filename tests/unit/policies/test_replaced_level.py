"""Programs of many tenants get a new column for the level, and have the same answers."""

import numpy as np
import pytest

from policies import solve, verify
from policies.leximin import highs
from tests.examples import numbers
from tests.unit.policies.drawn_pools import Draw


@pytest.mark.parametrize("seed", numbers(240))
def test_a_new_column_gives_the_answer_of_changed_coefficients(seed, monkeypatch):
    draw = Draw(seed)
    if draw.mode != "divisible" or draw.policy != "drfh":
        return
    changed = solve(draw.problem, "drfh", mode="divisible", options=draw.options)
    monkeypatch.setattr(highs, "MOST_CHANGED", 0)
    replaced = solve(draw.problem, "drfh", mode="divisible", options=draw.options)
    assert np.allclose(replaced.tenant_share, changed.tenant_share, rtol=1e-8, atol=1e-9)
    assert verify(draw.problem, replaced).valid
