"""The JSON shape of a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from policies.documents.answer_fields import CertificateDocument, read_fields
from policies.model.certificate import Certificate, Round


def certificate_to_document(certificate: Certificate) -> dict[str, Any]:
    """Write a certificate as plain JSON values.

    Parameters
    ----------
    certificate : Certificate
        The certificate of an answer.

    Returns
    -------
    dict
        What :func:`certificate_from_document` reads.

    Examples
    --------
    >>> from policies import Problem, certificate_to_document, solve
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> certificate_to_document(solve(problem, "drf").certificate)["frozen_in"]
    [0, 0]
    """
    return {
        "rounds": [
            {
                "stage": item.stage,
                "level": float(item.level),
                "bound": float(item.bound),
                "prices": item.prices.tolist(),
                **({} if item.proven else {"proven": False}),
                **({} if item.mix_prices is None else {"mix_prices": item.mix_prices.tolist()}),
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

    Parameters
    ----------
    document : mapping
        The certificate.

    Returns
    -------
    Certificate
        The same certificate.

    Raises
    ------
    ProblemError
        ``certificate.malformed``.

    Examples
    --------
    >>> from policies import certificate_from_document
    >>> rounds = [{"stage": 0, "level": 0.5, "bound": 0.5, "prices": [[1.0]]}]
    >>> certificate_from_document({"rounds": rounds, "frozen_in": [0]}).rounds[0].level
    0.5
    """
    return read_certificate(
        read_fields(CertificateDocument, document, code="certificate.malformed", name="certificate")
    )


def read_certificate(fields: Mapping[str, Any]) -> Certificate:
    """Return the certificate of the fields of a ``CertificateDocument``."""
    return Certificate(
        tuple(
            Round(
                stage=item["stage"],
                level=item["level"],
                bound=item["bound"],
                prices=item["prices"],
                proven=item["proven"],
                mix_prices=item["mix_prices"],
            )
            for item in fields["rounds"]
        ),
        np.array(fields["frozen_in"], dtype=np.int64),
        fields["divisible_prices"],
    )
