"""Quantities as clusters name and measure them, as the vector of a pool."""

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from allocator_service.core.errors import FieldError, Unacceptable
from allocator_service.core.quantities import Resource, parse_kubernetes, pointer_token

OFFERED = ROUND_FLOOR  # never more than there is
ASKED = ROUND_CEILING  # never less than is needed


class Measures:
    """Turns a cluster's quantities into vectors and remembers what the pool does not count.

    A resource is the pool's of the same name, or of the name after the last slash: `nvidia.com/gpu`
    is `gpu`.
    """

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._resources = resources
        self._position = {resource.name: index for index, resource in enumerate(resources)}
        self._ignored: set[str] = set()

    @property
    def ignored(self) -> list[str]:
        """The names met so far that the pool does not count, in alphabetical order."""
        return sorted(self._ignored)

    def vector(
        self, quantities: Mapping[str, object], *, rounding: str, pointer: str
    ) -> list[Decimal]:
        """The vector of an object of Kubernetes quantities, rounded at the 12th fractional digit.

        Raises `Unacceptable` naming every quantity that is none, and two that mean one resource.
        """
        vector = [Decimal(0)] * len(self._resources)
        named: dict[int, str] = {}
        errors: list[FieldError] = []
        for name, quantity in quantities.items():
            index = self._position.get(name, self._position.get(name.rpartition("/")[2]))
            if index is None:
                self._ignored.add(name)
                continue
            where = f"{pointer}/{pointer_token(name)}"
            try:
                amount = parse_kubernetes(
                    quantity, self._resources[index].unit, rounding=rounding, pointer=where
                )
            except Unacceptable as error:
                errors.extend(error.errors)
                continue
            if not amount:
                continue
            if index in named:
                detail = (
                    f'"{named[index]}" and "{name}" both mean the pool\'s resource'
                    f' "{self._resources[index].name}".'
                )
                errors.append(FieldError(where, "resource.ambiguous", detail))
            named[index] = name
            vector[index] = amount
        if errors:
            raise Unacceptable(errors[0].detail, code=errors[0].code, errors=errors)
        return vector
