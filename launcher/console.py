"""What the launcher says, and how it says that a step failed.

Standard output belongs to the command that runs (`./dev manage apikey create` prints a key and
nothing else); the launcher talks on standard error.
"""

import sys
from pathlib import Path

_LOG_LINES_SHOWN = 15


class StepFailed(Exception):
    """A step of the set-up failed: which one, what its log said last, and what to do about it."""

    def __init__(self, step: str, advice: str, *, log: Path | str | None = None) -> None:
        super().__init__(step)
        self.step = step
        self.advice = advice
        self.log = log
        self._excerpt = last_lines(log)  # now: the log may be gone when this is shown

    def __str__(self) -> str:
        lines = [f"This step failed: {self.step}"]
        if self._excerpt:
            where = f" of {self.log}" if isinstance(self.log, Path) else ""
            lines.append(f"The last lines{where}:")
            lines += [f"    {line}" for line in self._excerpt]
        lines.append(f"What to do: {self.advice}")
        return "\n".join(lines)


def last_lines(log: Path | str | None, count: int = _LOG_LINES_SHOWN) -> list[str]:
    """The last `count` non-empty lines of a log file or text; none where there is no log."""
    if isinstance(log, Path):
        log = log.read_text(errors="replace") if log.exists() else ""
    return [line for line in (log or "").splitlines() if line.strip()][-count:]


def say(message: str) -> None:
    """Tell the person at the terminal what is going on."""
    print(message, file=sys.stderr, flush=True)
