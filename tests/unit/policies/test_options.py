"""Options are held to their schema as JSON Schema says, by a part of it that needs no library."""

from decimal import Decimal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import Policy, Servers, choose, options_schema, policies_available, register
from policies.model.options import check_schema, mismatch
from tests.examples import examples

SCHEMAS = [info.options_schema for info in policies_available()]
NAMES = sorted({name for schema in SCHEMAS for name in schema["properties"]})
scalars = st.one_of(
    st.booleans(), st.none(), st.integers(-3, 2000), st.floats(-2, 1e7, allow_nan=False),
    st.sampled_from(["pool", "affinity", "best-fit", "slot", "at-once", "cpu", "", "a/b~c"]),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.dictionaries(st.sampled_from(["cpu", "u0", "a/b~c"]), inner, max_size=2),
    max_leaves=4,
)
given_options = st.dictionaries(st.sampled_from([*NAMES, "colour"]), values, max_size=2)


@examples(2000)
@given(schema=st.sampled_from(SCHEMAS), options=given_options)
def test_what_fits_is_what_json_schema_says(schema, options):
    fits = jsonschema.Draft202012Validator(schema).is_valid(options)
    assert (mismatch(schema, options) is None) == fits


def test_a_mistake_has_its_place():
    schema = choose("drf").policy.options_schema
    found = mismatch(schema, {"resource_weights": {"a/b~c": {"cpu": 0}}})
    assert found is not None
    assert found[0] == "/resource_weights/a~1b~0c/cpu"
    assert mismatch(schema, {"resource_weights": {"a": {"cpu": Decimal("0.5")}}}) is None


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("integer", Decimal("1.5"), "1.5 is not of type integer"),
        ("integer", True, "true is not of type integer"),
        ("number", "ä" * 90, f'"{"ä" * 79}... is not of type number'),
        ("string", {"a": [Decimal("0.5")]}, '{"a": ["0.5"]} is not of type string'),
    ],
)
def test_a_value_is_said_as_in_json_and_no_longer_than_a_line(kind, value, said):
    assert mismatch({"type": kind}, value) == ("", said)


def test_a_schema_that_says_more_than_is_checked_is_refused():
    for schema in ({"pattern": "a"}, options_schema(x={"items": {}}), {"not": {"enum": [1]}}):
        with pytest.raises(ValueError, match="cannot use"):
            check_schema(schema)
    policy = Policy(
        name="patterned",
        description="",
        servers={"indivisible": Servers.ONE_POOL},
        options_schema=options_schema(x={"type": "string", "pattern": "a"}),
        complexity="",
        source="",
    )
    with pytest.raises(ValueError, match="cannot use pattern"):
        register(policy, indivisible=lambda request: request)
    assert policy not in policies_available()
