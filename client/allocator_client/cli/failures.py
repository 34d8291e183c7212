"""What a command ends with when it cannot do what was asked: a line or two, and an exit code.

0 done; 1 refused, or the answer is no; 2 wrong usage, or not set up; 3 the service gives no answer;
4 waited in vain; 130 interrupted.
"""

from typing import IO, Any

import click

from allocator_client.errors import Changed, Problem, Unreachable

NO, UNUSABLE, AWAY, IN_VAIN, INTERRUPTED = 1, 2, 3, 4, 130
_SHOWN = 5  # mistakes of a body


class Failure(click.ClickException):
    """A command cannot go on; its text says why and what to do."""

    exit_code = NO

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(
            f"{click.style('alloc:', fg='red')} {self.format_message()}", file=file, err=True
        )


class NotSetUp(Failure):
    """There is no usable key, or something is not installed."""

    exit_code = UNUSABLE


class WrongUsage(Failure):
    """The command is not written as it should be."""

    exit_code = UNUSABLE


class WaitedInVain(Failure):
    """It did not happen in time."""

    exit_code = IN_VAIN


class ServiceAway(Failure):
    """The service gives no answer, or asks to come back later."""

    exit_code = AWAY


def failure(error: Problem | Unreachable) -> Failure:
    """What is shown of an error of the client."""
    if isinstance(error, Unreachable):
        return ServiceAway(f"{error}{_LOST if error.lost else ''}")
    first, *others = _mistakes(error) or [f"{error.detail} ({error.status} {error.code})"]
    lines = [first, *others]
    if isinstance(error, Changed):
        lines.append("It changed since it was read: look at it again, then repeat the command.")
    hint = "log in again: alloc login; " if error.status == 401 else ""
    lines.append(f"{hint}request {error.request_id}")
    text = "\n".join(lines)
    if error.status == 401:
        return NotSetUp(text)
    return (ServiceAway if error.status == 429 or error.status >= 500 else Failure)(text)


_LOST = " (The change may have been made: look before you repeat it.)"


def _mistakes(problem: Problem) -> list[str]:
    """A line for each mistake: what would be right, where, and the stable code."""
    shown = [
        f"{each.detail} ({problem.status} {each.code}{f' at {each.pointer}' if each.pointer else ''})"
        for each in problem.errors[:_SHOWN]
    ]
    more = len(problem.errors) - len(shown)
    return [*shown, f"and {more} more"] if more else shown
