"""Names that are unique per owner among what is present in a pool: of servers and of workloads."""

from collections.abc import Iterable

from allocator_service.core.errors import Conflict, FieldError

MAX_ERRORS = 20
Identity = tuple[int | None, str]


def refuse_taken_names(
    wanted: Iterable[tuple[str, Identity]], *, taken: set[Identity], code: str, owner: str
) -> None:
    """Raise `Conflict`, naming up to 20 items, where an owner has the name or wants it twice.

    `wanted`: the pointer of each item and its identity, `(owner's key, name)`; `owner` is the word
    for whose name it is.
    """
    errors: list[FieldError] = []
    seen = set(taken)
    for pointer, identity in wanted:
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
