"""The currencies of ISO 4217, and the rounding and division of amounts into minor units."""

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import wraps
from typing import ParamSpec, TypeVar

from allocator_service.core.quantities import EXACT_DIGITS

P = ParamSpec("P")
R = TypeVar("R")

# By the digits of the minor unit (ISO 4217, list one); metals, funds and tests have none.
_CODES = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    2: """
AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD
CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD
GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA
MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR
RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD
TZS UAH USD USN UYU UZS VED VES WST XCD YER ZAR ZMW ZWG
""",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
MINOR_DIGITS = {code: digits for digits, codes in _CODES.items() for code in codes.split()}


def exactly(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function's decimals exact, where Python's own context rounds to 28 digits.

    Sums of charges have more digits, however few a single price has. Not for generators, whose callers
    would compute under the context too.
    """

    @wraps(function)
    def exact(*args: P.args, **kwargs: P.kwargs) -> R:
        with localcontext(prec=EXACT_DIGITS):
            return function(*args, **kwargs)

    return exact


@exactly
def rounded(amount: Fraction, digits: int) -> Decimal:
    """Return the nearest amount of so many digits after the point, the even one of two equally near."""
    return Decimal(round(amount * 10**digits)).scaleb(-digits)


@exactly
def divided(amount: Decimal, shares: Sequence[Fraction], digits: int) -> list[Decimal]:
    """Divide the amount in proportion to the shares, into whole minor units that add up to it.

    Largest remainder (Hamilton): what rounding down leaves goes, a unit each, to the largest remainders,
    ties by position. `amount` must not have more digits, and the sum of the shares must be greater than
    0.
    """
    units, whole = int(amount.scaleb(digits)), sum(shares, Fraction(0))
    exact = [Fraction(units) * share / whole for share in shares]
    parts = [part.__floor__() for part in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: (parts[i] - exact[i], i))
    for position in by_remainder[: units - sum(parts)]:
        parts[position] += 1
    return [Decimal(part).scaleb(-digits) for part in parts]
