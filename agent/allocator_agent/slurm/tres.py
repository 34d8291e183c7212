"""Names and amounts of Slurm's trackable resources."""

from __future__ import annotations

import re
from fractions import Fraction

from allocator_agent.model import LICENCE_PREFIX
from allocator_agent.quantities import MEBIBYTE, Amounts

GPU_OF_TYPE = "gpu_"  # begins a pool's resource that is GPUs of one type
_LICENCE_TRES = "license/"  # begins the TRES of licences
UNKNOWN = ("", "Unknown", "None", "N/A")
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTPE]?)[nc]?")


def read_limits(text: str) -> dict[str, int]:
    """Return `cpu=8,mem=8G,gres/gpu=1` as whole numbers, with memory in MiB."""
    limits = {}
    for item in filter(None, text.split(",")):
        name, _, amount = item.partition("=")
        value = _amount(name, amount)
        limits[name.lower()] = int(value / MEBIBYTE) if name == "mem" else int(value)
    return limits


def read_tres(text: str) -> Amounts:
    """Return `cpu=4,mem=16G,node=1,gres/gpu:a100=1` as the amounts of a pool's resources."""
    amounts: Amounts = {}
    models: Amounts = {}
    for item in filter(None, text.split(",")):
        name, _, amount = item.partition("=")
        if name in ("node", "billing", "energy", "vmem", "pages") or amount in UNKNOWN:
            continue
        value = _amount(name, amount)
        resource = resource_of(name.partition(":")[0])
        if ":" in name:
            models[resource] = models.get(resource, Fraction(0)) + value
        if ":" not in name or resource == "gpu":
            amounts[resource_of(name)] = value
    return {**models, **amounts}


def resource_of(tres: str) -> str:
    """Return the pool's resource that corresponds to a TRES."""
    if tres.startswith(_LICENCE_TRES):
        return licence_resource(tres[len(_LICENCE_TRES) :])
    return "memory" if tres == "mem" else tres.rpartition("/")[2].lower().replace(":", "_")


def tres_of(resource: str) -> str:
    """Return the TRES by which a pool's resource is limited."""
    if resource.startswith(GPU_OF_TYPE):
        return f"gres/gpu:{resource[len(GPU_OF_TYPE) :]}"
    if resource.startswith(LICENCE_PREFIX):
        return f"{_LICENCE_TRES}{resource[len(LICENCE_PREFIX) :]}"
    return {"cpu": "cpu", "memory": "mem"}.get(resource, f"gres/{resource}")


def is_licence(tres: str) -> bool:
    """Return true for a TRES that is on no node."""
    return tres.startswith(_LICENCE_TRES)


def units_of(amounts: Amounts, tres: str) -> int:
    """Return an amount in whole units of a TRES, rounded up."""
    amount = amounts.get(resource_of(tres), Fraction(0)) / (MEBIBYTE if tres == "mem" else 1)
    return -(-amount.numerator // amount.denominator)


def licence_resource(name: str) -> str:
    """Return the pool's resource that corresponds to a licence."""
    return f"{LICENCE_PREFIX}{name.lower()}"


def _amount(name: str, text: str) -> Fraction:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{name}={text[:40]} is not an amount such as 4 or 16G")
    power = " KMGTPE".index(match[2] or " ")
    factor: int = 1000**power
    if name == "mem":
        factor = 1024**power if match[2] else MEBIBYTE
    return Fraction(match[1]) * factor
