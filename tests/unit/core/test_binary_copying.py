"""Fields of PostgreSQL's binary COPY, beside what psycopg makes of the same values."""

import math
from uuid import UUID

import numpy as np
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.numeric import FloatBinaryDumper, Int4BinaryDumper, Int8BinaryDumper
from psycopg.types.string import StrBinaryDumper
from psycopg.types.uuid import UUIDBinaryDumper

from allocator_service.core.binary_copying import (
    finite_fields,
    number_fields,
    raw_uuids,
    text_fields,
)

IDS = [UUID(int=5), UUID(int=2**127 + 1)]
FLOATS = [[1.5, -0.0, 1e300], [0.1, 5e-324, 3.0]]
NULL = b"\xff\xff\xff\xff"


def fields(dumper, values):
    """Return what psycopg writes for each value, after its length."""
    written = [bytes(dumper.dump(value)) for value in values]
    return [len(each).to_bytes(4, "big") + each for each in written]


def test_numbers_are_written_as_psycopg_writes_them():
    lists = Transformer().get_dumper(FLOATS[0], PyFormat.BINARY)
    expected = [
        fields(UUIDBinaryDumper(UUID), IDS),
        fields(Int4BinaryDumper(int), [7, -1]),
        fields(Int8BinaryDumper(int), [2**40, -2]),
        fields(FloatBinaryDumper(float), [0.1, 1e-9]),
        fields(lists, FLOATS),
    ]
    assert number_fields(
        raw_uuids(IDS),
        np.array([7, -1], dtype=np.int32),
        np.array([2**40, -2]),
        np.array([0.1, 1e-9]),
        np.array(FLOATS),
    ) == [b"".join(row) for row in zip(*expected, strict=True)]


def test_numbers_that_are_not_finite_are_null():
    one, three = fields(FloatBinaryDumper(float), [1.0, 3.0])
    assert finite_fields(np.array([1.0, math.nan, 3.0, math.inf])) == [one, NULL, three, NULL]


def test_texts_have_their_length_in_bytes():
    texts = ["cpu", "", "größe", "cpu"]
    assert text_fields(texts) == fields(StrBinaryDumper(str), texts)


def test_no_rows_have_no_fields():
    assert number_fields(raw_uuids([]), np.zeros(0), np.zeros((0, 2))) == []
    assert finite_fields(np.zeros(0)) == text_fields([]) == []
