"""Labels as lines of text."""

import pytest
from django.core.exceptions import ValidationError

from allocator_service.core.label_forms import LabelLinesField, SelectorLinesField

BLANKS = " " * 100_000


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        (' a = b c  \n"q\\"=1"=2', {"a": "b c", 'q"=1': "2"}),
        ("a==", {"a": "="}),
        ("a=", {"a": ""}),
    ],
)
def test_lines_are_read(text, labels):
    assert LabelLinesField().to_python(text) == labels


def test_alternatives_stand_between_commas():
    read = SelectorLinesField().to_python('"a=b" = "x,y" , z\ngpu=h100,a100\nzone=a')
    assert read == {"a=b": ["x,y", "z"], "gpu": ["h100", "a100"], "zone": "a"}


@pytest.mark.parametrize("field", [LabelLinesField, SelectorLinesField])
@pytest.mark.parametrize(
    "text",
    [
        f"{BLANKS}a{BLANKS}b",
        f"q=a{BLANKS}b",
        '"' + "\\" * 100_000,
        '"a' * 50_000 + "=b",
        "q=" + '" ,' * 50_000,
    ],
)
def test_lines_that_cost_the_square_of_their_length_are_refused_at_once(field, text):
    """They took minutes."""
    with pytest.raises(ValidationError):
        field().to_python(text)
