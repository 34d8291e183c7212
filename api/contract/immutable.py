"""Fields that are decided when an object is made."""

from collections.abc import Mapping, Sequence
from typing import Any

from allocator_service.core.errors import Unacceptable


def refuse_changed(
    current: Mapping[str, Any], wanted: Mapping[str, Any], names: Sequence[str]
) -> None:
    """Refuse a change of these fields; naming them with the value they have is no change."""
    for name in names:
        if wanted[name] != current[name]:
            raise Unacceptable(
                f'"{name}" is set when the object is created and cannot change.',
                code="field.immutable",
                pointer=f"/{name}",
            )
