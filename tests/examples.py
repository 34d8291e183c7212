"""How much is asked before every change, and what only at length: `long` tests, and more examples.

`./dev test` asks each property of a sixteenth of its examples, but of no fewer than 16, the same ones
every time; `./dev test --thorough` asks it of all, and runs the long tests; mutants are looked for with
a quarter, and no fewer than 25. What is asked of every place, a hostile value or a kill at random, is
asked of some of them. Without deadlines: the machine may be busy. `ALLOCATOR_EXAMPLES` is a number of
examples for all of them.
"""

import os
from typing import Any

import pytest
from hypothesis import Phase, settings

from tests.services import THOROUGH

# Set by `./dev mutants`, which asks whether a property fails and not for which smallest example.
UNSHRUNK = "ALLOCATOR_UNSHRUNK"
NUMBER = "ALLOCATOR_EXAMPLES"
FEWEST, FEWEST_FOR_MUTANTS = 16, 25
PART, PART_FOR_MUTANTS = 16, 4


def examples(count: int, **more: Any) -> settings:
    """The settings of a property with so many examples, if there is time for all."""
    if os.environ.get(UNSHRUNK):
        more["phases"] = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
    return settings(max_examples=_examples_now(count), deadline=None, **more)


def numbers(count: int) -> range:
    """Return as many numbers below `count` as a property of `count` examples has, spread evenly."""
    return range(0, count, max(1, count // _examples_now(count)))


def _examples_now(count: int) -> int:
    fewest, part = FEWEST, PART
    if os.environ.get(UNSHRUNK):
        fewest, part = FEWEST_FOR_MUTANTS, PART_FOR_MUTANTS
    if not thorough():
        count = min(count, max(fewest, count // part))
    return int(os.environ.get(NUMBER, count))


def thorough() -> bool:
    """Whether there is time for everything."""
    return bool(os.environ.get(THOROUGH))


# Text is evaluated when a test is set up. With `-n 0` this module is imported before `--thorough` is
# read.
long = pytest.mark.skipif(
    f"not os.environ.get({THOROUGH!r})",
    reason="long: ./dev test --thorough runs it, and so does .ci/weekly",
)
"""For tests that cost more than every change can wait for."""
