"""Names of servers and workloads, unique per owner among the present ones of a pool."""

from collections.abc import Iterable

from allocator_service.core.errors import Conflict, FieldError

MAX_ERRORS = 20
Identity = tuple[int | None, str]


def refuse_taken_names(
    requested: Iterable[tuple[str, Identity]], *, taken: set[Identity], code: str, owner: str
) -> None:
    """Raise `Conflict`, naming up to 20 items, for names that their owner has already or requests twice.

    `requested` has the pointer of each item and its identity, `(owner's key, name)`. `owner` is the word
    for the owner in the error.
    """
    errors: list[FieldError] = []
    seen = set(taken)
    for pointer, identity in requested:
        if identity in seen:
            detail = (
                f'This {owner} has "{identity[1]}" in the pool already, or twice in this request.'
            )
            errors.append(FieldError(f"{pointer}/name", code, detail))
            if len(errors) == MAX_ERRORS:
                break
        seen.add(identity)
    if errors:
        raise Conflict(errors[0].detail, code=code, errors=errors)
