"""The names and units of a pool's resources in a scheduler.

Sources: Slurm's TRES (slurm.conf, AccountingStorageTRES; `mem` in MiB); Kubernetes' quantities (CPU in
thousandths, memory in bytes, devices whole); KAI's Queue (CPU in thousandths, memory in 10^6 bytes).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from allocator_service.core.errors import Conflict
from allocator_service.core.quantities import Resource, bytes_in, is_count

MIB = Decimal(2**20)
_THOUSANDTHS = {"m", "mcpu", "millicpu", "millicore", "millicores"}


@dataclass(frozen=True)
class TargetUnit:
    """The unit of a resource in a target, where `per` of its units are one of the pool's.

    `name` is the target's name of the resource, None where it has none and enforces nothing. `coarse` is
    true if a unit is so large that a fraction of it matters. `note` is for operators. Jobs use the
    resource where they run, unless `on_servers` is false.
    """

    resource: Resource
    name: str | None
    text: str
    per: Decimal
    coarse: bool = False
    note: str = ""
    on_servers: bool = True


def slurm_units(resources: Sequence[Resource]) -> list[TargetUnit]:
    """Return TRES in whole CPUs, MiB of memory, whole generic resources and licences."""
    return [_SLURM.get(each.name, _generic_resource)(each) for each in resources]


def kubernetes_units(resources: Sequence[Resource]) -> list[TargetUnit]:
    """Return thousandths of a CPU, bytes and whole devices."""
    return [_KUBERNETES.get(each.name, _unknown)(each) for each in resources]


def kai_units(resources: Sequence[Resource]) -> list[TargetUnit]:
    """Return thousandths of a CPU, millions of bytes and whole GPUs."""
    return [_KAI.get(each.name, _unknown)(each) for each in resources]


def _cpu(name: str, parts: int, text: str) -> Callable[[Resource], TargetUnit]:
    def unit(resource: Resource) -> TargetUnit:
        if bytes_in(resource.unit) is not None:
            raise _unit_refused(resource, "core, or none")
        if resource.unit.lower() in _THOUSANDTHS:
            return TargetUnit(resource, name, text, Decimal(parts) / 1000, parts == 1)
        return TargetUnit(resource, name, text, Decimal(parts), parts == 1, _counted(resource))

    return unit


def _bytes(name: str, size: Decimal, text: str) -> Callable[[Resource], TargetUnit]:
    def unit(resource: Resource) -> TargetUnit:
        in_bytes = bytes_in(resource.unit)
        if in_bytes is not None:
            return TargetUnit(resource, name, text, in_bytes / size)
        if resource.unit == "":
            note = f"The pool has no unit for {resource.name}: it is taken for MiB."
            return TargetUnit(resource, name, text, MIB / size, note=note)
        raise _unit_refused(resource, "B, MiB, GiB, MB or GB")

    return unit


def _device(name: str, text: str) -> Callable[[Resource], TargetUnit]:
    def unit(resource: Resource) -> TargetUnit:
        if bytes_in(resource.unit) is not None:
            raise _unit_refused(resource, "gpu, count, or none")
        return TargetUnit(resource, name, text, Decimal(1), True, _counted(resource))

    return unit


def _generic_resource(resource: Resource) -> TargetUnit:
    if resource.name.startswith(_GPU_OF_TYPE):
        kind = resource.name.removeprefix(_GPU_OF_TYPE)
        return _device(f"gres/gpu:{kind}", f"1 GPU of type {kind}")(resource)
    if resource.name.startswith(_LICENCE):
        licence = resource.name.removeprefix(_LICENCE)
        unit = _device(f"license/{licence}", f"1 licence of {licence}")(resource)
        return replace(unit, on_servers=False)
    name = f"gres/{resource.name}"
    text = f"1 {resource.unit or name}"
    return TargetUnit(resource, name, text, Decimal(1), True, _counted(resource))


def _unknown(resource: Resource) -> TargetUnit:
    note = f"The target has no resource that {resource.name} stands for: it is not enforced."
    return TargetUnit(resource, None, f"1 {resource.unit or resource.name}", Decimal(1), note=note)


def _counted(resource: Resource) -> str:
    if is_count(resource.unit):
        return ""
    return f"{resource.name} is counted in the pool's unit, {resource.unit}."


def _unit_refused(resource: Resource, known: str) -> Conflict:
    return Conflict(
        f'The target cannot count {resource.name} in "{resource.unit}": give the resource the unit'
        f" {known}.",
        code="rendering.unit",
    )


# A type of GPU is a resource of its own: gpu_a100 is gres/gpu:a100.
_GPU_OF_TYPE = "gpu_"
# So is a licence: license_matlab is license/matlab.
_LICENCE = "license_"
_Units = Mapping[str, Callable[[Resource], TargetUnit]]
_SLURM: _Units = {
    "cpu": _cpu("cpu", 1, "1 CPU"),
    "memory": _bytes("mem", MIB, "1 MiB"),
    "gpu": _device("gres/gpu", "1 GPU"),
}
_KUBERNETES: _Units = {
    "cpu": _cpu("cpu", 1000, "1 milli-CPU"),
    "memory": _bytes("memory", Decimal(1), "1 byte"),
    "ephemeral-storage": _bytes("ephemeral-storage", Decimal(1), "1 byte"),
    "gpu": _device("nvidia.com/gpu", "1 GPU"),
}
_KAI: _Units = {
    "cpu": _cpu("cpu", 1000, "1 milli-CPU"),
    "memory": _bytes("memory", Decimal(10**6), "10^6 bytes"),
    "gpu": _device("gpu", "1 GPU"),
}
