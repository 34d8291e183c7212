"""Fields and documents read values as they are."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from allocator_service.core.errors import DomainError, Unacceptable, Unreadable
from api.contract.documents import merge_patch, read_document
from api.contract.fields import DurationField, LabelsField, SelectorField, SlugField, TimestampField
from policies.fields import (
    BooleanField,
    ChoiceField,
    Document,
    DocumentField,
    Field,
    IntegerField,
    ListField,
    Mistakes,
    NumberField,
    TextField,
)


class Inner(Document):
    size = IntegerField(minimum=1, maximum=9)


class Outer(Document):
    name = TextField(max_length=5)
    flag = BooleanField(default=False)
    inner = DocumentField(Inner, required=False)
    sizes = ListField(Inner, max_items=2, required=False)
    note = TextField(max_length=5, required=False, allow_null=True)


def read(field: Field, value: Any) -> Any:
    class Whole(Document):
        x = field

    return read_document(Whole, {"x": value})["x"]


def refusal(action: Callable[[], object]) -> DomainError:
    with pytest.raises(DomainError) as refused:
        action()
    return refused.value


@pytest.mark.parametrize("value", ["true", 1, 0, None, [], "yes"])
def test_only_true_and_false_are_booleans(value):
    assert refusal(lambda: read(BooleanField(), value)).code == "field.type"


@pytest.mark.parametrize("value", [Decimal("1.0"), "1", True, None, [1], "1_000", "١"])
def test_only_json_integers_are_integers(value):
    field = IntegerField(minimum=0, maximum=2000)
    assert refusal(lambda: read(field, value)).code == "field.type"


@pytest.mark.parametrize("value", [-1, 10, 10**30])
def test_integers_stay_in_their_range(value):
    error = refusal(lambda: read(IntegerField(minimum=0, maximum=9), value))
    assert (error.code, error.detail) == ("field.range", "Expected a whole number from 0 to 9.")


@pytest.mark.parametrize("text", ["1_000", "١٢", " 1", "1 ", "+1", "1.0", "1e2", "", "0x1"])
def test_texts_of_integers_are_ascii_digits(text):
    field = IntegerField(minimum=-9, maximum=2000)
    with pytest.raises(Mistakes) as refused:
        field.read_text(text)
    assert [each.code for each in refused.value.found] == ["field.type"]
    assert field.read_text("-7") == -7


@pytest.mark.parametrize("value", ["1", True, None])
def test_numbers_are_no_texts(value):
    assert refusal(lambda: read(NumberField(), value)).code == "field.type"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (1, "field.type"),
        (None, "field.type"),
        ("", "field.blank"),
        (" a", "field.text"),
        ("a ", "field.text"),
        ("\u00a0a", "field.text"),
        ("a\nb", "field.text"),
        ("a\u2028b", "field.text"),
        ("\x7f", "field.text"),
        ("\u202ea", "field.text"),
        ("a\u2066b", "field.text"),
        ("a\u200fb", "field.text"),
        ("abcdef", "field.length"),
    ],
)
def test_texts_are_one_line_without_blanks_at_the_ends(value, code):
    assert refusal(lambda: read(TextField(max_length=5), value)).code == code


@pytest.mark.parametrize("value", ["", "-a", "a-", "A", "a_b", "ä", "a" * 64, "a\n", "a/b", "１"])
def test_slugs_are_lower_case_words(value):
    assert refusal(lambda: read(SlugField(), value)).code == "slug.syntax"
    assert read(SlugField(), "a-1") == "a-1"


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-01-05T00:00:00Z", datetime(2026, 1, 5, tzinfo=UTC)),
        ("2026-01-05t01:30:00+01:30", datetime(2026, 1, 5, tzinfo=UTC)),
        ("2026-01-05 00:00:00.5z", datetime(2026, 1, 5, 0, 0, 0, 500_000, tzinfo=UTC)),
    ],
)
def test_timestamps_are_taken_with_any_offset(text, instant):
    assert read(TimestampField(), text) == instant


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-05", "2026-01-05T00:00:00", "2026-01-05T00:00Z", "20260105T000000Z",
        "2026-02-30T00:00:00Z", "2026-01-05T24:01:00Z", "2026-01-05T00:00:60Z",
        "0001-01-01T00:00:00+10:00", "2026-W01-1T00:00:00Z", "٢٠٢٦-01-05T00:00:00Z", "now", "",
    ],
)  # fmt: skip
def test_other_timestamps_are_refused(text):
    assert refusal(lambda: read(TimestampField(), text)).code == "timestamp.syntax"


@pytest.mark.parametrize("value", ["P", "PT", "7D", "P1.5D", "P-1D", "P0D", "P1D ", "", 7, None])
def test_durations_are_whole_and_longer_than_zero(value):
    assert refusal(lambda: read(DurationField(), value)).code in {
        "duration.syntax",
        "duration.zero",
    }


@pytest.mark.parametrize("value", ["B", "", "a ", 1, None])
def test_choices_are_exact(value):
    assert refusal(lambda: read(ChoiceField(choices=["a", "b"]), value)).code in {
        "field.choice",
        "field.type",
    }


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ([], "/x"),
        ({"zone": 1}, "/x/zone"),
        ({"zone": None}, "/x/zone"),
        ({"a/b~c": ["x"]}, "/x/a~1b~0c"),
        ({"": "x"}, "/x/"),
        ({str(n): "x" for n in range(65)}, "/x"),
    ],
)
def test_labels_are_texts_by_name(value, pointer):
    error = refusal(lambda: read(LabelsField(), value))
    assert [item.pointer for item in error.errors] == [pointer]


@pytest.mark.parametrize(
    "value", [{"zone": []}, {"zone": [1]}, {"zone": {"in": ["a"]}}, {"z": None}]
)
def test_a_selector_names_values(value):
    assert isinstance(refusal(lambda: read(SelectorField(), value)), Unacceptable)
    assert read(SelectorField(), {"zone": ["a", "b"], "disk": ""}) == {
        "zone": ["a", "b"],
        "disk": "",
    }


def test_a_document_has_its_defaults():
    assert read_document(Outer, {"name": "a"}) == {
        "name": "a",
        "flag": False,
        "inner": None,
        "sizes": None,
        "note": None,
    }


def test_every_finding_is_named_at_once():
    error = refusal(
        lambda: read_document(Outer, {"flag": 1, "inner": {"size": 0}, "sizes": [{"size": 1}, {}]})
    )
    assert (error.status, error.code) == (422, "field.required")
    assert [(item.pointer, item.code) for item in error.errors] == [
        ("/name", "field.required"),
        ("/flag", "field.type"),
        ("/inner/size", "field.range"),
        ("/sizes/1/size", "field.required"),
    ]


def test_names_that_are_no_field_are_named_before_anything_else():
    error = refusal(lambda: read_document(Outer, {"flag": 1, "inner": {"a/b": 1}}))
    assert (type(error), error.status, error.code) == (Unreadable, 400, "field.unknown")
    assert [item.pointer for item in error.errors] == [
        "/inner/a~1b",
        "/name",
        "/flag",
        "/inner/size",
    ]


@pytest.mark.parametrize("value", [[], "x", None, 1])
def test_what_is_no_object_is_not_acceptable(value):
    assert refusal(lambda: read_document(Outer, value)).code == "field.type"


def test_at_most_twenty_findings_are_named():
    error = refusal(lambda: read_document(Outer, {f"x{n}": 1 for n in range(100)}))
    assert len(error.errors) == 20


def test_a_name_of_python_ends_with_an_underscore():
    class Period(Document):
        from_ = TimestampField()

    class Report(Period):
        to = TimestampField(required=False)

    assert list(Report.fields) == ["from", "to"]
    assert Report.schema()["required"] == ["from"]


def test_a_schema_says_what_is_read():
    assert Outer.schema() == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 5},
            "flag": {"type": "boolean", "default": False},
            "inner": Inner.schema(),
            "sizes": {"type": "array", "items": Inner.schema(), "minItems": 1, "maxItems": 2},
            "note": {"type": ["string", "null"], "minLength": 1, "maxLength": 5},
        },
        "additionalProperties": False,
        "required": ["name"],
    }


def test_merge_patch_is_rfc_7396():
    assert merge_patch({"a": "b"}, {"a": None}) == {}
    assert merge_patch({"a": {"b": "c", "d": 1}}, {"a": {"b": None, "e": 2}}) == {
        "a": {"d": 1, "e": 2}
    }
    assert merge_patch({"a": [1]}, {"a": {"b": None}}) == {"a": {}}
    assert merge_patch({"a": "b"}, ["c"]) == ["c"]
