"""Random documents of statements, and the text of their PDF files."""

import io
import re

from hypothesis import strategies as st
from pypdf import PdfReader

FROM, TO = "2027-02-28T23:00:00Z", "2027-03-31T22:00:00Z"
MARKUP = ['#read("/etc/passwd")', "$x$", "*bold* _it_ `raw` <label> @ref", "= heading", "\\ #{ }"]
FOREIGN = [
    "שלום עולם",
    "العربية",
    "🎉 emoji",
    "中文字",
    "\u202eevil",
    "a\n\n- b",
    "x" * 200,
    "\x00",
]

amounts = st.decimals("-1e24", "1e24", places=2).map(lambda value: f"{value:f}")
prices = st.decimals("0", "1e6", places=9).map(lambda value: f"{value:f}")
notes = st.none() | st.sampled_from(MARKUP + FOREIGN) | st.text(max_size=300)
slugs = st.from_regex(r"[a-z][a-z0-9-]{0,61}[a-z0-9]", fullmatch=True)


@st.composite
def lines(draw, number=1):
    kind = draw(st.sampled_from(["usage", "commitment", "fixed", "credit_note"]))
    used = kind in ("usage", "commitment")
    billed = draw(amounts)
    return {
        "number": number, "kind": kind, "role": draw(st.sampled_from(["charge", "credit"])),
        "resource": "cpu" if used else None, "unit": "core" if used else None,
        "server_owner": draw(st.none() | slugs), "user": draw(slugs), "plan": draw(notes),
        "from": FROM, "to": TO, "service_month": "2027-03", "amount": None,
        "hours": draw(prices) if used else None, "price": draw(st.none() | prices),
        "charge": billed, "fee": "0.00", "billed": billed, "effective": billed, "entry": None,
        "adjusts": None, "note": draw(notes), "adjusted_kind": None, "commitment": None, "entries": [],
    }  # fmt: skip


@st.composite
def documents(draw, most=12):
    count = draw(st.integers(0, most))
    return {
        "pool": draw(slugs), "tenant": draw(slugs), "month": "2027-03", "state": "closed",
        "currency": "EUR", "timezone": "Europe/Berlin", "from": FROM, "to": TO,
        "closed_at": "2027-04-02T00:00:00Z",
        "lines": [draw(lines(number)) for number in range(1, count + 1)],
        "totals": {name: draw(amounts) for name in ("charges", "credits", "billed", "effective")},
        "savings": {
            "alone_cost": "1.00", "outside_cost": "2.00", "paid": "2.50",
            "saved": draw(st.none() | amounts),
            "reason": None, "why": "No price.", "lost_hours": {"cpu": "1234.5"}, "definition": "Saved.",
        },
        "method": {"policy": "drf", "mode": "divisible"}, "notes": [],
    }  # fmt: skip


def compact(text):
    """Return a text without spaces and places to break a line, as pages may have them anywhere."""
    return re.sub(r"[\s\u200b]+", "", text)


def pdf_text(content):
    """Return the text of a PDF file."""
    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(content)).pages)
