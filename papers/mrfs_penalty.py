"""Penalty of MRFS and numbers that the paper does not define (Tables I and II)."""

from __future__ import annotations

import numpy as np

from papers.finding import Finding, Row, Verdict
from papers.penalty import penalty
from papers.words import word_for_word

# δ of CPU and RAM and α as printed.
TABLE_2 = (
    ("2457.352941", "10203.4375", "0.264436581"),
    ("2600", "10289.0625", "0.254453125"),
    ("2705.588235", "9435.625", "0.201222426"),
    ("2720.882353", "9909.375", "0.223380515"),
    ("2173.333333", "8273.888889", "0.196361111"),
    ("2457.255882", "10203.25", "0.264436912"),
)
# β of dominant CPU and RAM, then of non-dominant ones, as printed, in the same rows.
TABLE_1 = (
    ("1.066834069", "0.728409041", "0.108561842", "0.250502592"),
    ("1.035760848", "0.719698324", "0.10183153", "0.244452501"),
    ("1.012268025", "0.711362962", "0.103893504", "0.246280228"),
    ("0.999276224", "0.700556703", "0.107685474", "0.262689845"),
    ("0.998897746", "0.820490563", "0.141714168", "0.312789566"),
    ("1.066772968", "0.728390924", "0.108579392", "0.250518144"),
)
CAPACITY = np.array([10_000.0, 20_000.0])
# Quotients of numbers with nine digits are the same within this.
SAME = 1e-6
UNDEFINED = (
    "β comes from the paper on FFMRA, which is not among our sources, and the requests that it was "
    "measured on are not printed."
)


def reproduce_penalties() -> Finding:
    """Return the finding of Table II, α of every row from its δ."""
    found = [penalty(np.array([float(cpu), float(ram)]), CAPACITY) for cpu, ram, _ in TABLE_2]
    rows = [
        Row(f"α of δ-CPU {cpu} and δ-RAM {ram}", alpha, f"{ours:.9f}")
        for (cpu, ram, alpha), ours in zip(TABLE_2, found, strict=True)
    ]
    verdict, differences = word_for_word(rows)
    return Finding(
        name="mrfs-table2",
        title="The penalty α from mean dominant demands δ",
        source="Hamzeh et al., MRFS, 2020, Table II",
        setting=f"α of each row from its δ and capacities of {CAPACITY[0]:,.0f} CPU and "
        f"{CAPACITY[1]:,.0f} RAM, which are not printed and are the ones that give the table, by the "
        "function that MRFS is measured with. The δ are the paper's: the requests are not printed.",
        rows=tuple(rows),
        differences=differences,
        verdict=verdict,
    )


def reproduce_betas() -> Finding:
    """Return the finding of Table I, β, which the paper does not define.

    It is compared with what Table II would make of it.
    """
    rows = [Row(f"β of row {i}: d-CPU, d-RAM, nd-CPU, nd-RAM", ", ".join(row), "–")
            for i, row in enumerate(TABLE_1, 1)]  # fmt: skip
    constant = []
    for r, name in enumerate(("CPU", "RAM")):
        quotient = [
            float(row[r]) / float(delta[r]) for row, delta in zip(TABLE_1, TABLE_2, strict=True)
        ]
        constant.append(max(quotient) / min(quotient) - 1 <= SAME)
        rows.append(Row(f"β d-{name} over δ-{name} of Table II, least and most of the rows", "–",
                        f"{min(quotient):.4g}, {max(quotient):.4g}"))  # fmt: skip
    return Finding(
        name="mrfs-table1",
        title="β of dominant and non-dominant requests",
        source="Hamzeh et al., MRFS, 2020, Table I",
        setting="Nothing was run: the paper prints β and states neither what it is nor from which "
        "requests it was measured. The last rows put it beside δ of the same rows of Table II.",
        rows=tuple(rows),
        differences=(
            UNDEFINED,
            "β is δ over a constant, such as a capacity."
            if all(constant)
            else "It is not δ over a capacity either: the quotient differs from row to row.",
        ),
        verdict=Verdict.of(constant),
    )
