"""The work of reading a body grows with its size, not with the square of it: whatever is in it."""

import gc
import time
from contextlib import suppress

import pytest

from allocator_service.core.errors import Unreadable
from api.contract.parsers import csv_rows, json_document

SMALL, LARGE = 4_000, 32_000
# Eight times the size: eight times the work where it is linear, 64 times where it is quadratic.
TOO_MUCH = 24
ATTEMPTS = 5


def repeated_last(count):
    names = ", ".join(f'"name-{i}": 0' for i in range(count))
    return f'{{{names}, "name-{count - 1}": 0}}'.encode()


def columns(count, *more):
    return ",".join([*(f"column-{i}" for i in range(count)), *more]).encode()


BODIES = {
    "a name repeated at the end of an object": (json_document, repeated_last),
    "names that are all different": (
        json_document,
        lambda count: repeated_last(count).replace(b"name-0", b"other"),
    ),
    "brackets that close at once": (json_document, lambda count: b"[" + b"[],[]," * count + b"[]]"),
    "brackets in strings": (json_document, lambda count: b'["' + b"[{" * count + b'"]'),
    "escaped quotes": (json_document, lambda count: b'["' + rb"\"\\" * count + b'"]'),
    "escaped surrogates": (json_document, lambda count: b'["' + rb"\ud83d\ude00" * count + b'"]'),
    "numbers": (json_document, lambda count: b"[" + b"1.5e3," * count + b"0]"),
    "many columns": (csv_rows, columns),
    "a column repeated at the end": (csv_rows, lambda count: columns(count, "column-0")),
    "columns that are members": (
        csv_rows,
        lambda count: b",".join(b"demand.r%d" % i for i in range(count)),
    ),
    "a column that is a part of another": (csv_rows, lambda count: columns(count, "column-0.x")),
    "many rows": (csv_rows, lambda count: b"a,b\n" + b"1,2\n" * count),
    "rows of many cells": (
        csv_rows,
        lambda count: columns(64) + b"\n" + (b",".join([b"1"] * 64) + b"\n") * (count // 64),
    ),
}


def processor_seconds(read, body):
    """The least of three readings, refusals included; without looking for garbage of other tests."""
    taken = []
    gc.disable()
    try:
        for _ in range(3):
            began = time.process_time()
            with suppress(Unreadable):
                read(body)
            taken.append(time.process_time() - began)
    finally:
        gc.enable()
    return min(taken)


def grows_too_much(read, body, part=1):
    """Whether it does each time: a busy neighbour slows what does not fit into a cache, for a while."""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(0.5)
        small = max(processor_seconds(read, body(SMALL // part)), 1e-4)
        if processor_seconds(read, body(LARGE // part)) < TOO_MUCH * small:
            return False
    return True


@pytest.mark.parametrize("name", BODIES)
def test_eight_times_the_body_is_not_64_times_the_work(name):
    assert not grows_too_much(*BODIES[name])


def test_a_naive_search_for_what_is_repeated_is_caught():
    """The control: looking each name up in a list of those before it. An eighth shows it as well."""

    def naive(body):
        names = body.split(b",")
        return next((n for i, n in enumerate(names) if n in names[:i]), None)

    assert grows_too_much(naive, columns, part=8)
