"""Quantities, money and instants as people read them in a terminal."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

SECONDS_PER_HOUR = 3600
NONE = "-"
_DIGITS = 4
# Words and abbreviations of devices have a plural; symbols such as GiB or MHz have none.
_NOUN = re.compile(r"[a-z]{3,}|v?[A-Z]{1,3}U|FPGA", re.ASCII)

# As the service names them in `GET /api/v1/policies/`.
_POLICIES = {
    "asset": "Equal sums of shares (asset fairness)",
    "ceei": "Equal budgets at market prices (CEEI)",
    "drf": "Fair shares of one big server (DRF)",
    "drfh": "Fair shares on real servers (DRFH)",
    "h-mrf": "Fair over time (H-MRF)",
    "lt-af": "Fair over time by sums of shares (LT-AF)",
    "lt-drf": "Fair over time by dominant share (LT-DRF)",
    "mrfs": "Balanced servers (MRFS)",
    "single-resource": "Fair shares of one resource",
    "slots": "Fair shares of equal slots",
    "static": "Each on its own servers",
    "tda": "Taking turns (TDA)",
}


# As the service writes them in the explanation of a decision, for a reader who is not the tenant.
_REASONS = {
    "task_limit": "It runs all the tasks it asked for.",
    "no_eligible_server": "No active server has the labels it selects together with the resources it"
    " needs.",
    "resource_absent": "It needs a resource that the pool does not have.",
    "no_server_large_enough": "One task is larger than every server it may run on, even an empty one.",
    "gang": "No task has room for all its pieces at once.",
    "out_of_range": "Its demand is too small or too large, compared with the pool, to compute with.",
    "level": "Its tenant has the level of all waiting tenants: more for it would mean less for a tenant"
    " that has less.",
    "limit:lend": "What contributors lend of their servers is in use.",
    "limit:tenant": "The limit of the member is reached.",
    "limit:workload": "The limit of this workload is reached.",
}
_RESOURCE, _GROUP_LIMIT = "resource:", "limit:group:"


def reason_text(reason: str) -> str:
    """Return why a workload gets no more.

    >>> reason_text("resource:cpu")
    'All of cpu is used up on the servers it may run on.'
    >>> reason_text("limit:group:ml"), reason_text("of-a-newer-service")
    ('The limit of the group ml is reached.', 'of-a-newer-service')
    """
    if reason.startswith(_RESOURCE):
        name = reason.removeprefix(_RESOURCE)
        return f"All of {name} is used up on the servers it may run on."
    if reason.startswith(_GROUP_LIMIT):
        return f"The limit of the group {reason.removeprefix(_GROUP_LIMIT)} is reached."
    return _REASONS.get(reason, reason)


def policy_title(name: str) -> str:
    """Return the name of a policy for people.

    >>> policy_title("tda"), policy_title("of-a-newer-service")
    ('Taking turns (TDA)', 'of-a-newer-service')
    """
    return _POLICIES.get(name, name)


def number(value: object) -> str:
    """Return a number in four significant digits, with all of those before the point.

    >>> [number(each) for each in (12583, 5 / 7, "15.50", 1234.5678, 0.00001234, None)]
    ['12,583', '0.7143', '15.5', '1,235', '1.23e-5', '-']
    """
    if value is None:
        return NONE
    try:
        exact = Decimal(str(value))
    except InvalidOperation:
        return str(value)
    if not exact.is_finite():
        return str(value)
    if exact and abs(exact) < Decimal("0.0001"):
        mantissa, _, exponent = f"{exact:.2e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    places = max(0, _DIGITS - 1 - exact.adjusted()) if abs(exact) >= 1 else _DIGITS
    text = f"{exact:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def hours(amount: str, spent: str | None) -> str:
    """Return the hours of a budget with all of its digits, and what is spent of them if it is known.

    >>> hours("4000.000", "4012.3333333333"), hours("0.125", "0.1256"), hours("12345.5", None)
    ('4,012.33 of 4,000 hours', '0.126 of 0.125 hours', '12,345.5 hours')
    """
    parts = [exact_number(amount)]
    if spent is not None:
        parts.insert(0, balance_number(spent, amount))
    return f"{' of '.join(parts)} hours"


def balance_number(value: str, amount: str) -> str:
    """Return a part of a budget to hundredths, or to the last digit of an amount that has more.

    >>> balance_number("1100.254", "4000"), balance_number("-0.1256", "0.125")
    ('1,100.25', '-0.126')
    """
    places = max(2, len(plain(f"{Decimal(amount):f}").partition(".")[2]))
    return plain(f"{Decimal(value):,.{places}f}")


def plain(number: str) -> str:
    """Return a number in digits without zeros at the end of its fraction."""
    return number.rstrip("0").rstrip(".") if "." in number else number


def percent(value: object) -> str:
    """Return a fraction in percent."""
    return NONE if value is None else f"{100 * float(str(value)):.1f} %"


def counted(value: object, noun: str) -> str:
    """Return a number with its noun, such as `1 task` or `1,234 tasks`."""
    text = number(value)
    return f"{text} {noun if text == '1' else noun + 's'}"


def quantity(value: object, name: str, unit: str, *, exact: bool = False) -> str:
    """Return an amount of a resource, in four significant digits or `exact`.

    >>> [quantity(4, "gpu", "GPU"), quantity(1, "cpu", "core"), quantity(1234, "memory", "GiB")]
    ['4 GPUs', '1 core', '1,234 GiB memory']
    >>> quantity(2, "a100", "GPU")
    '2 a100 GPUs'
    """
    text = exact_number(value) if exact else number(value)
    if not unit:
        return f"{text} {name}"
    if not _NOUN.fullmatch(unit):
        return f"{text} {unit} {name}"
    one = unit[:-1] if unit.endswith("s") and not unit.endswith("ss") else unit
    noun = one if text == "1" else f"{one}s"
    stated = one.lower() == name.lower() or (name, one) == ("cpu", "core")
    return f"{text} {noun}" if stated else f"{text} {name} {noun}"


def quantities(
    amounts: Mapping[str, object], units: Mapping[str, str] | None = None, *, exact: bool = False
) -> str:
    """Return amounts of resources in a line, such as `2 cores, 12 GiB memory`."""
    known = units or {}
    parts = [
        quantity(amount, name, known.get(name, ""), exact=exact) for name, amount in amounts.items()
    ]
    return ", ".join(parts) or NONE


def selector(labels: Mapping[str, object]) -> str:
    """Return the servers that a selector names, empty for all.

    >>> selector({"gpu": ["h100", "a100"], "room": "cellar"})
    'gpu=h100 or a100, room=cellar'
    """
    return ", ".join(
        f"{label}={' or '.join(values) if isinstance(values, list) else values}"
        for label, values in labels.items()
    )


def limit_text(
    amount: Mapping[str, object],
    has: Mapping[str, object] | None,
    where: Mapping[str, object],
    units: Mapping[str, str],
) -> str:
    """Return a limit in force with what is allocated of it, if that is known.

    The limit has all of its digits, because it would be another one if it were rounded.

    >>> limit_text({"gpu": 8}, {"gpu": 2.5}, {"gpu": ["h100"]}, {"gpu": "GPU"})
    '2.5 of 8 GPUs on gpu=h100'
    >>> limit_text({"gpu": "8.9999999999"}, {"gpu": 8.9999999999}, {}, {"gpu": "GPU"})
    '8.9999999999 of 8.9999999999 GPUs'
    """
    parts = [
        ("" if has is None else f"{_number_within(has[name], most)} of ")
        + quantity(most, name, units.get(name, ""), exact=True)
        for name, most in amount.items()
    ]
    servers = selector(where)
    return ", ".join(parts) + (f" on {servers}" if servers else "")


def exact_number(value: object) -> str:
    """Return a number with all of its digits.

    >>> [exact_number(each) for each in ("12345.6780", 8.9999999999, 4)]
    ['12,345.678', '8.9999999999', '4']
    """
    return plain(f"{Decimal(str(value)):,f}")


def _number_within(value: object, most: object) -> str:
    """Return a number that is at most another one, with all digits if rounding made it more."""
    part, limit = Decimal(str(value)), Decimal(str(most))
    rounded = Decimal(number(value).replace(",", ""))
    return exact_number(value) if part <= limit < rounded else number(value)


def fulfilment(met: object, limited_by: Sequence[str] | None) -> str:
    """Return how far a guarantee is met, empty if it is hidden from the reader.

    >>> fulfilment(1, []), fulfilment(0.75, ["resource:gpu"]), fulfilment(None, None)
    ('met', '75.0 % met, limited by gpu', '')
    >>> fulfilment(0.99996, ["lend"]), fulfilment(0.0001, ["lend"])
    ('less than 100 % met, limited by lend', 'less than 0.1 % met, limited by lend')
    """
    if met is None or met == 1:
        return "" if met is None else "met"
    reasons = ", ".join(reason.removeprefix("resource:") for reason in limited_by or ())
    part = percent(met)
    if part == "100.0 %" or (part == "0.0 %" and met):
        part = f"less than {'100' if part == '100.0 %' else '0.1'} %"
    return f"{part} met, limited by {reasons or NONE}"


def money(amount: str | None, currency: str = "") -> str:
    """Return an amount of money in groups of three, with all of its digits.

    >>> money("1234.50", "EUR")
    '1,234.50 EUR'
    """
    return NONE if amount is None else f"{Decimal(amount):,f} {currency}".rstrip()


def instant(text: str | None, *, seconds: bool = False) -> str:
    """Return an instant in UTC.

    >>> instant("2027-01-04T09:00:00.123456+01:00")
    '4 January 2027, 08:00 UTC'
    """
    if text is None:
        return NONE
    at = datetime.fromisoformat(text).astimezone(UTC)
    return f"{at.day} {at:%B %Y}, {at:{'%H:%M:%S' if seconds else '%H:%M'}} UTC"


def month_name(month: str) -> str:
    """Return a month with its name.

    >>> month_name("2026-10")
    'October 2026'
    """
    return f"{date.fromisoformat(f'{month}-01'):%B %Y}"
