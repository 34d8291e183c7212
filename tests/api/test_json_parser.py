"""What the strict parser takes and refuses, byte by byte."""

import json
import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator_service.core.errors import DomainError, Unreadable
from api.contract.parsers import json_document

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**39), 10**39) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


@given(JSON)
def test_what_is_json_reads_as_the_standard_library_reads_it(value):
    assert json_document(json.dumps(value).encode()) == value
    assert json_document(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_and_never_crash(body):
    try:
        refused = None
        json_document(body)
    except DomainError as error:
        refused = error
    assert refused is None or (refused.status, refused.code.split(".")[0]) == (400, "json")


@pytest.mark.parametrize("body", [b"", b"  \n"])
def test_an_empty_body_is_an_empty_object(body):
    assert json_document(body) == {}


def test_decimals_stay_exact():
    assert json_document(b'{"a": 0.1, "b": 1e3}') == {"a": Decimal("0.1"), "b": Decimal("1e3")}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "json.syntax"),
        (b"{}{}", "json.syntax"),
        (b"{'a': 1}", "json.syntax"),
        (b'{"a": 1,}', "json.syntax"),
        (b"[1, 2", "json.syntax"),
        (b"01", "json.syntax"),
        (b"1_000", "json.syntax"),
        ("١٢".encode(), "json.syntax"),
        (b"\xef\xbb\xbf{}", "json.syntax"),
        (b'{"a": "\xff"}', "json.encoding"),
        ('{"a": 1}'.encode("utf-16"), "json.encoding"),
        (b'{"a": 1, "a": 1}', "json.duplicate"),
        (b'{"b": [{"a": 1, "\\u0061": 2}]}', "json.duplicate"),
        (b"NaN", "json.number"),
        (b'{"a": [Infinity]}', "json.number"),
        (b"-Infinity", "json.number"),
        (b"1e400", "json.number"),
        (b"-1e400", "json.number"),
        (b"1e-400", "json.number"),
        (b"0e999999", "json.number"),
        (b"1e99999999999999999999", "json.number"),
        (b"1" * 41, "json.number"),
        (b"0." + b"1" * 1000, "json.number"),
        (b'"\\u0000"', "json.nul"),
        (b'{"\\u0000": 1}', "json.nul"),
        (b'"\x00"', "json.syntax"),
        (b'"\\ud800"', "json.surrogate"),
        (b'"\\udc00\\ud800"', "json.surrogate"),
        (b'{"\\uDFFF": 1}', "json.surrogate"),
        (b"[" * 33 + b"]" * 33, "json.depth"),
        (b'{"a":' * 33 + b"1" + b"}" * 33, "json.depth"),
        (b'[{"a":' * 500 + b"1" + b"}]" * 500, "json.depth"),
        (b"[" * 1_000_000, "json.depth"),
        (b'"' + b"[" * 40, "json.syntax"),
    ],
)
def test_it_refuses(body, code):
    with pytest.raises(Unreadable) as refusal:
        json_document(body)
    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"[" * 32 + b"]" * 32, None),
        (b'["' + b"[" * 1000 + b'"]', ["[" * 1000]),
        (b'["\\"[[", "]]\\\\"]', ['"[[', "]]\\"]),
        (b'"\\\\u0000"', "\\u0000"),
        (b'"\\\\ud800"', "\\ud800"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        ('"Größe 漢字 \U0001f600"'.encode(), "Größe 漢字 \U0001f600"),
        (b"1" * 40, int("1" * 40)),
        (b"1e308", Decimal("1e308")),
    ],
)
def test_it_takes(body, value):
    document = json_document(body)
    assert value is None or document == value


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"9" * (2**20) + b"]",
        b"0." + b"9" * (2**20),
        b"[" * (2**20),
        b"[]," * (2**19),
        b'{"a":' * (2**18),
        b'"' + b"\\" * (2**20),
    ],
    ids=["integer", "decimal", "open", "flat", "objects", "escapes"],
)
def test_a_hostile_mebibyte_is_refused_in_linear_time(body):
    """What takes the square of its length takes minutes; a busy machine does not count."""
    started = time.process_time()
    with pytest.raises(Unreadable):
        json_document(body)
    assert time.process_time() - started < 5
