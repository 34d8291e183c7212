"""Vectors of a pool from the quantities of a cluster."""

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from allocator_service.core.errors import FieldError, Unacceptable
from allocator_service.core.quantities import Resource, parse_kubernetes, pointer_token

# Capacity is rounded down and requests are rounded up, so that rounding never makes a task fit that
# does not.
ROUND_CAPACITY = ROUND_FLOOR
ROUND_REQUEST = ROUND_CEILING


class Measures:
    """Conversion of a cluster's quantities to vectors, with a record of uncounted resources.

    A name is matched with the pool's resource of the same name, or of its part after the last
    slash: `nvidia.com/gpu` is `gpu`.
    """

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._resources = resources
        self._position = {resource.name: index for index, resource in enumerate(resources)}
        self._ignored: set[str] = set()

    @property
    def ignored(self) -> list[str]:
        """The names so far that the pool does not count, in alphabetical order."""
        return sorted(self._ignored)

    def counts(self, name: str) -> bool:
        """Return whether the pool has a resource of this name."""
        return name in self._position

    def named(
        self, quantities: Mapping[str, object], *, rounding: str, pointer: str
    ) -> dict[str, Decimal]:
        """Return the amounts by the pool's names, those of 0 included.

        Raises `Unacceptable` for a quantity that cannot be read.
        """
        amounts = {}
        for name, quantity in quantities.items():
            index = self._position.get(name, self._position.get(name.rpartition("/")[2]))
            if index is None:
                self._ignored.add(name)
                continue
            resource, where = self._resources[index], f"{pointer}/{pointer_token(name)}"
            amounts[resource.name] = parse_kubernetes(
                quantity, resource.unit, rounding=rounding, pointer=where
            )
        return amounts

    def vector(
        self, quantities: Mapping[str, object], *, rounding: str, pointer: str
    ) -> list[Decimal]:
        """Return the vector of Kubernetes quantities, rounded at the 12th fractional digit.

        Raises `Unacceptable` with every quantity that cannot be read, and every two names of one
        resource.
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
            # An amount of 0 under a second name is no contradiction.
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
