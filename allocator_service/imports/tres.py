"""Slurm's trackable resources, as in `cpu=4,mem=16G,gres/gpu:a100=1`."""

import re

from allocator_service.core.errors import Unacceptable

LONGEST_TRES = 100_000
LICENCE = "license_"  # begins the pool's names of licences
_LICENCES = "license/"  # begins Slurm's
_AMOUNT = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,12})?)([KMGTPE]?)[nc]?", re.ASCII)


def tres_quantities(text: str, pointer: str) -> dict[str, str]:
    """Return the quantities by name, with `mem` in binary units as `memory`.

    Raises `Unacceptable` for text that is not in the format.
    """
    if len(text) > LONGEST_TRES:
        raise Unacceptable(
            f"Expected at most {LONGEST_TRES} characters.", code="field.length", pointer=pointer
        )
    amounts: dict[str, str] = {}
    for item in filter(None, text.split(",")):
        name, equals, amount = item.partition("=")
        match = _AMOUNT.fullmatch(amount)
        if not equals or match is None:
            raise Unacceptable(
                f'Expected a trackable resource such as cpu=4 or mem=16G, got "{item[:40]}".',
                code="import.shape",
                pointer=pointer,
            )
        number, suffix = match.groups()
        amounts[_resource_of(name)] = f"{number}{suffix}{'i' if suffix else ''}"
    return amounts


def _resource_of(tres: str) -> str:
    """Return the pool's name of memory and of licences, otherwise the name that Slurm has."""
    if tres.startswith(_LICENCES):
        return f"{LICENCE}{tres[len(_LICENCES) :].lower()}"
    return "memory" if tres == "mem" else tres
