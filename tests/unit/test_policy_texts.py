"""Texts of policies for people."""

from allocator_service.allocation.policies import options_text


def test_options_are_exact():
    options = {
        "tolerance": 1e-5,
        "least_share": 0.123456,
        "round_up": True,
        "placement": "two-choices",
    }
    assert options_text(options) == (
        "tolerance 0.00001, least share 0.123456, round up yes, placement two-choices"
    )
    assert options_text({"period_seconds": 900}) == "period 15 minutes"
    assert options_text({"slot": {"cpu": 1, "memory": 0.5}}) == "slot (cpu 1, memory 0.5)"
    assert options_text({"a": 1e-4}) != options_text({"a": 1e-5})
