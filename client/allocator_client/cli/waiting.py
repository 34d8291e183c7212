"""Waiting for a result, and the option that bounds it."""

import time
from collections.abc import Callable
from typing import TypeVar

import click

from allocator_client.cli.failures import WaitTimeout
from allocator_client.cli.output import note
from allocator_client.cli.words import number

T = TypeVar("T")
_LOOK_SECONDS = (0.1, 2.0)  # between two looks: at first, and at last
_SILENT_SECONDS = 3.0

wait_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    help="Seconds to wait at most.",
)


def wait_for(look: Callable[[], T | None], seconds: float, what: str) -> T:
    """Call `look` at growing intervals until it returns a result. Raises `WaitTimeout`."""
    began = time.monotonic()
    until = began + seconds
    pause, longest = _LOOK_SECONDS
    is_noted = False
    while (found := look()) is None:
        if time.monotonic() - began > _SILENT_SECONDS and not is_noted:
            note(f"Waiting for the {what} ...")
            is_noted = True
        if time.monotonic() >= until:
            raise WaitTimeout(f"After {number(seconds)} s there is no {what}.")
        time.sleep(min(pause, max(0.0, until - time.monotonic())))
        # Most results are there within a second; those that are not must not cost a request each tenth.
        pause = min(longest, pause * 1.5)
    return found
