"""CSV in and out."""

import pytest

from allocator_service.core.documents import csv_bytes
from allocator_service.core.errors import Unreadable
from api.contract.parsers import csv_rows


def test_dotted_columns_become_members_and_empty_cells_are_left_out():
    body = b"name,capacity.cpu,capacity.memory,labels.zone,count\ns1,2,12,a,\ns2,,4Gi,,3\n"
    assert csv_rows(body) == [
        {"name": "s1", "capacity": {"cpu": "2", "memory": "12"}, "labels": {"zone": "a"}},
        {"name": "s2", "capacity": {"memory": "4Gi"}, "count": "3"},
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_byte_order_mark_and_either_newline_are_tolerated(newline):
    body = newline.join(["name,note", 's1,"two', 'lines"', ""]).encode("utf-8-sig")
    assert csv_rows(body) == [{"name": "s1", "note": f"two{newline}lines"}]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"\n", "csv.header"),
        (b"a,,b\n1,2,3\n", "csv.header"),
        (b"a,a\n1,2\n", "csv.header"),
        (b"capacity,capacity.cpu\n1,2\n", "csv.header"),
        (b"a,b\n1\n", "csv.row"),
        (b"a,b\n1,2,3\n", "csv.row"),
        (b'a\n"1\n', "csv.syntax"),
        (b'a\n"1"2\n', "csv.syntax"),
        (b"a\n\xff\n", "csv.encoding"),
        (b"a\n\x00\n", "csv.nul"),
    ],
)
def test_it_refuses(body, code):
    with pytest.raises(Unreadable) as refusal:
        csv_rows(body)
    assert refusal.value.code == code


def test_a_row_of_the_wrong_length_is_named():
    with pytest.raises(Unreadable) as refusal:
        csv_rows(b"a,b\n1,2\n1,2,3\n")
    assert refusal.value.detail == "Row 2 has 3 cells; the header names 2 columns."
    assert [error.pointer for error in refusal.value.errors] == ["/1"]


def test_cells_that_a_spreadsheet_would_run_are_quoted():
    rows = [{"name": text, "n": -1} for text in ("=1+1", "+1", "-1+1", "@x", "\tx", "\rx", "a=b")]
    assert csv_bytes(rows, ["name", "n"]) == (
        b"name,n\r\n'=1+1,-1\r\n'+1,-1\r\n'-1+1,-1\r\n'@x,-1\r\n'\tx,-1\r\n\"'\rx\",-1\r\na=b,-1\r\n"
    )


def test_negative_amounts_stay_numbers():
    rows = [{"amount": text} for text in ("-900", "-0.25", "-1e5", "-.5", "-")]
    assert csv_bytes(rows, ["amount"]) == b"amount\r\n-900\r\n-0.25\r\n'-1e5\r\n'-.5\r\n'-\r\n"


def test_nested_values_are_dotted_columns_or_json():
    row = {
        "capacity": {"cpu": 2, "nvidia.com-gpu": 0.5},
        "labels": {"a": "b"},
        "x": None,
        "y": True,
    }
    columns = ["capacity.cpu", "capacity.nvidia.com-gpu", "capacity.disk", "labels", "x", "y"]
    assert csv_bytes([row], columns).splitlines()[1] == b'2,0.5,,"{""a"":""b""}",,true'
