"""The JSON shape of a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from policies.errors import ProblemError
from policies.model.certificate import Certificate, Round


def certificate_to_document(certificate: Certificate) -> dict[str, Any]:
    """The certificate as plain JSON values."""
    return {
        "rounds": [
            {
                "stage": item.stage,
                "level": float(item.level),
                "bound": float(item.bound),
                "prices": item.prices.tolist(),
                **({} if item.proven else {"proven": False}),
            }
            for item in certificate.rounds
        ],
        "frozen_in": certificate.frozen_in.tolist(),
        **(
            {}
            if certificate.divisible is None
            else {"divisible_prices": certificate.divisible.tolist()}
        ),
    }


def certificate_from_document(document: Mapping[str, Any]) -> Certificate:
    """Read what :func:`certificate_to_document` wrote.

    Raises:
        ProblemError: ``certificate.malformed``.
    """
    try:
        rounds = tuple(
            Round(
                stage=int(item["stage"]),
                level=float(item["level"]),
                bound=float(item["bound"]),
                prices=np.array(item["prices"], dtype=np.float64),
                proven=bool(item.get("proven", True)),
            )
            for item in document["rounds"]
        )
        frozen_in = np.array(document["frozen_in"], dtype=np.int64)
        prices = document.get("divisible_prices")
        divisible = None if prices is None else np.array(prices, dtype=np.float64)
    except (KeyError, TypeError, ValueError) as error:
        raise ProblemError(
            "certificate.malformed", f"the certificate cannot be read: {error!r}", "/certificate"
        ) from error
    return Certificate(rounds, frozen_in, divisible)
