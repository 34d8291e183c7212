"""Errors of commands, each with a message and an exit code.

Exit codes are 0 done, 1 refused or a negative answer, 2 wrong usage or not set up, 3 no answer of the
service, 4 timeout of a wait, and 130 interrupted.
"""

from typing import IO, Any

import click

from allocator_client.errors import Changed, Problem, Unreachable

NO, UNUSABLE, AWAY, TIMED_OUT, INTERRUPTED = 1, 2, 3, 4, 130
_SHOWN = 5  # mistakes of a body


class Failure(click.ClickException):
    """Error that ends a command, whose text has the reason and what to do."""

    exit_code = NO

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(
            f"{click.style('alloc:', fg='red')} {self.format_message()}", file=file, err=True
        )


class NotSetUp(Failure):
    """Error of a missing key or of something that is not installed."""

    exit_code = UNUSABLE


class WrongUsage(Failure):
    """Error in the arguments of a command."""

    exit_code = UNUSABLE


class WaitTimeout(Failure):
    """Error of a wait that took too long."""

    exit_code = TIMED_OUT


class ServiceAway(Failure):
    """Error of a service that gives no answer or refuses requests for now."""

    exit_code = AWAY


def failure(error: Problem | Unreachable) -> Failure:
    """Return the failure that shows an error of the client."""
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
    # Scripts repeat after 3 and give up after 1: a rate limit does not refuse the request itself.
    return (ServiceAway if error.status == 429 or error.status >= 500 else Failure)(text)


_LOST = " (The change may have been made: look before you repeat it.)"


def _mistakes(problem: Problem) -> list[str]:
    """Return a line for each mistake, with its place, its code and what would be right."""
    shown = [
        f"{each.detail} ({problem.status} {each.code}{f' at {each.pointer}' if each.pointer else ''})"
        for each in problem.errors[:_SHOWN]
    ]
    more = len(problem.errors) - len(shown)
    return [*shown, f"and {more} more"] if more else shown
