"""The PDF file of a statement: the amounts of its document, and every text as text."""

import hashlib
import io
import os
import re
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pypdf import PdfReader

from allocator_service.billing.statements.pages import line_sections, statement_page
from allocator_service.billing.statements.paper import typesetting
from allocator_service.billing.statements.paper.characters import RANGES, REPLACEMENT, printable
from allocator_service.billing.statements.paper.sheets import (
    PAGE_WIDTH,
    REPLACED,
    _line_tables,
    group_statement_pdf,
    statement_pdf,
)
from allocator_service.core.display import money_text
from allocator_service.core.documents import json_bytes
from allocator_service.core.errors import DomainError, TooLarge, Unavailable
from tests.examples import examples
from tests.statements import FOREIGN, FROM, MARKUP, TO, compact, documents, pdf_text

TOTALS = {"charges": "1234.50", "credits": "-10.00", "billed": "1224.50", "effective": "1.00"}


def document(count=1, **changes):
    """A statement of lines that differ in their notes only."""
    line = {
        "kind": "usage", "role": "charge", "resource": "cpu", "unit": "core", "server_owner": None,
        "user": "a", "plan": "1: now", "from": FROM, "to": TO, "hours": "861", "price": "0.05",
        "billed": "43.05", "entry": None, "adjusts": None, "note": None,
    }  # fmt: skip
    savings = {"saved": None, "why": "No price.", "lost_hours": {}, "definition": "Saved."}
    return {
        "pool": "lab", "tenant": "a", "month": "2027-03", "state": "closed", "currency": "EUR",
        "timezone": "Europe/Berlin", "from": FROM, "to": TO, "closed_at": "2027-04-02T00:00:00Z",
        "lines": [{**line, "number": number} for number in range(1, count + 1)],
        "totals": TOTALS, "savings": savings, "notes": [], **changes,
    }  # fmt: skip


def noted(*notes):
    of = document(len(notes))
    for line, note in zip(of["lines"], notes, strict=True):
        line["note"] = note
    return of


@given(documents())
@examples(200)
def test_the_amounts_are_those_of_the_document(of):
    text = compact(pdf_text(statement_pdf(of)))
    for section in line_sections(of):
        assert compact(f"{section.sum_title}{money_text(section.sum)}") in text
        for row in section.rows:
            amounts = [
                row["hours"],
                row["hours"] and f"{row['unit'] or 'unit'}-hours",
                row["price"],
            ]
            written = [money_text(each) if each and each[0].isdigit() else each for each in amounts]
            if row["hours"] and not row["price"]:
                written[-1] = "several"
            cells = [f"to {row['to']}", *written, money_text(row["billed"])]
            assert compact("".join(each for each in cells if each)) in text
            assert compact(f"{row['number']}{printable(row['what'])}") in text
    assert compact(f"Total{money_text(of['totals']['billed'])}EUR") in text


def test_a_file_is_the_same_in_every_process_and_has_no_clock():
    content = statement_pdf(noted(*MARKUP, *FOREIGN))
    assert statement_pdf(noted(*MARKUP, *FOREIGN)) == content
    script = (
        "import sys, django; django.setup()\n"
        "from allocator_service.billing.statements.paper.sheets import statement_pdf\n"
        "from tests.unit.billing.test_paper import FOREIGN, MARKUP, noted\n"
        "sys.stdout.buffer.write(statement_pdf(noted(*MARKUP, *FOREIGN)))"
    )
    other = {**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=other, capture_output=True, check=True
    )
    assert done.stdout == content
    about = PdfReader(io.BytesIO(content)).metadata
    assert about is not None
    assert about["/CreationDate"].startswith("D:20270402000000")
    opened = statement_pdf(document(state="open", closed_at=None))
    assert "/CreationDate" not in PdfReader(io.BytesIO(opened)).metadata


def test_the_words_and_numbers_are_those_of_the_page():
    text = pdf_text(statement_pdf(document()))
    for words in (
        "Statement of March 2027", "1 March 2027, 00:00 CET to 1 April 2027, 00:00 CEST",
        "Europe/Berlin",
        "Usage, cpu, on the pool's servers", "861\ncore-hours", "1,224.50 EUR", "Sum of charges",
        "2 April 2027, 02:00 CEST", "page 1 of 1", "Not known: No price.",
    ):  # fmt: skip
        assert words in text, words
    assert compact(REPLACED) not in compact(text)
    assert "There are no charges or credits in this month." in pdf_text(statement_pdf(document(0)))


def test_a_line_over_several_prices_states_it():
    of = document(2)
    of["lines"][0]["price"] = None
    of["lines"][1] |= {
        "price": None,
        "hours": None,
        "unit": None,
        "kind": "fixed",
        "resource": None,
    }
    for text in (pdf_text(statement_pdf(of)), statement_page(of)):
        assert text.count("several") == 1
        assert "charged" not in text


def test_the_parts_of_a_line_add_up_to_its_charge():
    of = document(2)
    of["lines"][0] |= {
        "price": None,
        "parts": [{"price": "0.03", "hours": "1500"}, {"price": "0.0123", "hours": "20.5"}],
    }
    for text in (pdf_text(statement_pdf(of)), statement_page(of)):
        assert "charged 1,500 × 0.03 + 20.5 × 0.0123" in re.sub(r"\s+", " ", text)


def test_a_copied_text_has_no_places_to_break_a_line():
    name = "0000000000000001"
    content = statement_pdf(noted("W" * 200) | {"tenant": f"{name}:"})
    assert f"Tenant {name}:" in pdf_text(content)
    assert "\u200b" not in pdf_text(content)


def test_the_digest_is_that_of_the_json_document():
    of = document()
    assert hashlib.sha256(json_bytes(of)).hexdigest() in pdf_text(statement_pdf(of))


@pytest.mark.parametrize("text", MARKUP)
def test_markup_is_text(text):
    written = pdf_text(statement_pdf(noted(text)))
    assert compact(text) in compact(written)
    assert "root:" not in written
    assert compact(REPLACED) not in compact(written)


def test_a_character_without_a_glyph_is_replaced_visibly():
    written = pdf_text(statement_pdf(noted("a 中文 b", "\u202eevil", "🎉")))
    for shown in ("a □□ b", "□evil"):
        assert shown in written
    assert compact(REPLACED) in compact(written)


def test_hebrew_and_arabic_are_text():
    written = pdf_text(statement_pdf(noted("שלום", "العربية")))
    assert "שלום" in written
    assert compact(REPLACED) not in compact(written)


@given(st.text(max_size=400))
@example("0000000000000001:")
@examples(200)
def test_no_text_breaks_the_file(text):
    content = statement_pdf(noted(text, text[::-1]) | {"notes": [text], "tenant": text})
    assert f"page 1 of {len(PdfReader(io.BytesIO(content)).pages)}" in pdf_text(content)


def test_every_character_of_the_ranges_has_a_glyph_in_both_weights():
    """PDF/UA refuses a text without one. Names of tenants are in the title, which is bold."""
    known = "".join(chr(code) for low, high in RANGES for code in range(low, high + 1))
    assert REPLACEMENT in known  # in place of others, which the file states
    known = known.replace(REPLACEMENT, "")
    of = document(notes=[known]) | {"month": "2027-03", "currency": known}
    text = pdf_text(statement_pdf(of))
    assert compact(REPLACED) not in compact(text)


def test_nothing_lies_beside_the_page():
    """Long names and numbers break inside their columns."""
    of = noted(*(["W" * 200, "w" * 2_000, None] * 5)) | {"tenant": "m" * 63}
    for line in of["lines"]:
        line["billed"], line["hours"] = "-123456789012345678901234.56", "1" * 18 + "." + "1" * 12
        line["resource"], line["plan"] = "r" * 63, "P" * 255
    for page in PdfReader(io.BytesIO(statement_pdf(of))).pages:
        width = float(page.mediabox.width)
        places: list[float] = []
        page.extract_text(
            visitor_text=lambda text, cm, tm, *_, found=places: (
                found.append(cm[4] + tm[4]) if text.strip() else None
            )
        )
        assert places
        assert min(places) > 0
        assert max(places) < width


def test_no_number_covers_another_column():
    of = noted(*(["W" * 200, "w" * 2_000, None] * 2))
    for line in of["lines"]:
        line["billed"], line["hours"] = "-1234567890123.56", "1" * 18 + "." + "1" * 12
        line["price"] = "0.123456789012"
    (table, *_) = _line_tables(line_sections(of), "EUR")
    fixed = [column["width"] or 0 for column in table["columns"]]
    hours, price, billed = (
        (15 + PAGE_WIDTH - sum(fixed[place:])) * 72 / 25.4 for place in (3, 4, 5)
    )
    found: list[tuple[str, float]] = []
    page = PdfReader(io.BytesIO(statement_pdf(of))).pages[0]
    page.extract_text(
        visitor_text=lambda text, cm, tm, *_: found.append((text.strip(), cm[4] + tm[4]))
    )
    numbers = [
        (text, x) for text, x in found if re.fullmatch(r"-?[\d,]+[.,]?\d*", text) and x > hours
    ]
    assert any(text.startswith("111") for text, _ in numbers), found
    for text, x in numbers:
        edge = next(edge for edge in (price, billed, 1e9) if x < edge)
        assert x + 4.4 * sum(map(str.isdigit, text)) < edge, (text, x, edge)
    left_of_numbers = [text for text, x in found if x < hours and "1" * 6 in text]
    assert left_of_numbers == []


def test_a_usual_line_has_its_period_and_its_numbers_in_a_line_each():
    of = document()
    of["lines"][0] |= {"from": "2026-09-30T00:00:00+02:00", "hours": "29.035721926111"}
    text = pdf_text(statement_pdf(of))
    assert re.search(r"^.*30 September 2026, 00:00 CEST", text, re.MULTILINE)
    assert "29.035721926111" in text.replace(" ", "")


def test_three_hundred_lines_repeat_their_head_and_count_their_pages():
    reader = PdfReader(io.BytesIO(statement_pdf(document(300))))
    texts = [page.extract_text() for page in reader.pages]
    assert len(texts) > 5
    for number, text in enumerate(texts, start=1):
        assert f"page {number} of {len(texts)}" in text
        assert ("Hours" in text) == ("43.05" in text)
    assert sum(text.count("43.05") for text in texts) == 300


def test_a_group_has_its_groups_and_tenants():
    rows = [{"tenant": f"t-{number}", "group": "optics", **TOTALS} for number in range(1, 1_500)]
    of = document() | {
        "group": "physics", "tree_at": TO, "groups": [{"group": "optics", "tenants": 1_499, **TOTALS}],
        "tenants": rows, "definition": "The sum.",
    }  # fmt: skip
    text = compact(pdf_text(group_statement_pdf(of)))
    assert "optics1,4991,234.50-10.001,224.50" in text
    for row in rows:
        assert f"{row['tenant']}optics1,234.50-10.001,224.50" in text
    assert "Sum1,234.50-10.001,224.50Billed1,224.50EUR" in text
    assert "Usebycluster" not in text


def test_a_statement_has_one_unit_of_a_resources_hours():
    of = document()
    of["clusters"] = [{"cluster": "east", "hours": {"cpu": "1080"}}]
    of["savings"] = of["savings"] | {"lost_hours": {"cpu": "3"}}
    text = compact(pdf_text(statement_pdf(of)))
    assert "Usebyclustereast1,080core-hoursofcpu" in text
    assert "Lesscputhanalone:3core-hours." in text
    assert "unit-hours" not in text.lower()


def test_a_group_has_the_use_of_each_cluster():
    clusters = [{"cluster": "east", "hours": {"cpu": "1080", "gpu": "2"}},
                {"cluster": None, "hours": {"cpu": "3"}}]  # fmt: skip
    of = document() | {
        "group": "physics", "tree_at": TO, "groups": [], "tenants": [], "definition": "The sum.",
        "clusters": clusters,
    }  # fmt: skip
    text = compact(pdf_text(group_statement_pdf(of)))
    assert "Usebyclustereast1,080core-hoursofcpu;2unit-hoursofgpuNotknown3core-hoursofcpu" in text


def test_a_hundred_thousand_lines_are_refused_at_once():
    of = document()
    of["lines"] *= 100_000
    with pytest.raises(TooLarge, match=r"at most 2,000 lines, and this statement has 100,000"):
        statement_pdf(of)


def test_as_many_lines_as_may_be_keep_the_limits():
    pages = PdfReader(io.BytesIO(statement_pdf(document(typesetting.MAX_ROWS)))).pages
    assert f"page {len(pages)} of {len(pages)}" in pages[-1].extract_text()


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [("SECONDS", 0.01, "pdf_timeout"), ("MEMORY_BYTES", 2**26, "pdf_failed")],
)
def test_time_and_memory_are_bounded(monkeypatch, name, value, code):
    monkeypatch.setattr(typesetting, name, value)
    with pytest.raises(DomainError) as raised:
        statement_pdf(document(300))
    assert raised.value.code == f"statement.{code}"
    monkeypatch.undo()
    assert statement_pdf(document()).startswith(b"%PDF-")


def test_more_files_at_once_are_refused():
    places = [typesetting._places.acquire(blocking=False) for _ in range(typesetting.PLACES)]
    assert all(places)
    try:
        with pytest.raises(Unavailable) as raised:
            statement_pdf(document())
    finally:
        for _ in places:
            typesetting._places.release()
    assert raised.value.code == "statement.pdf_busy"
    assert statement_pdf(document()).startswith(b"%PDF-")
