"""The sentence of an explanation has percentages and separators, and names stay as they are."""

import pytest

from allocator_service.allocation.words import explanation_text


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (
            "ada runs 4279 tasks of a, 1 task of b, a dominant share of 0.3846 at weight 0.5; that is"
            " all it asked for.",
            "ada runs 4,279 tasks of a, 1 task of b, a dominant share of 38.46 % at weight 0.5; that is"
            " all it asked for.",
        ),
        (
            "ada runs 1.23457e+06 tasks of a, a dominant share of 3.2e-05, 0.5455 of what it would run"
            " alone, at weight 1; g uses 0.781 of the pool at weight 2, divided among 3 tenants",
            "ada runs 1,234,570 tasks of a, a dominant share of 0.0032 %, 54.55 % of what it would run"
            " alone, at weight 1; g uses 78.1 % of the pool at weight 2, divided among 3 tenants",
        ),
        (
            "ada-0.5 runs 3 tasks of 0.25, a dominant share of 0.375 of what the others leave",
            "ada-0.5 runs 3 tasks of 0.25, a dominant share of 37.5 % of what the others leave",
        ),
    ],
)
def test_shares_are_percentages_and_counts_have_separators(written, shown):
    assert explanation_text(written) == shown
