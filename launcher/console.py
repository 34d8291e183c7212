"""Messages and failures of the launcher.

Standard output is reserved for the command that runs, because `./dev manage apikey create` prints a key
and nothing else. The launcher writes to standard error.
"""

import sys
from pathlib import Path

_LOG_LINES_SHOWN = 15


class StepFailed(Exception):
    """Failure of a step of the set-up, with the last lines of its log and advice."""

    def __init__(self, step: str, advice: str, *, log: Path | str | None = None) -> None:
        super().__init__(step)
        self.step = step
        self.advice = advice
        self.log = log
        self._excerpt = last_lines(
            log
        )  # read early, because the log may be gone when this is shown

    def __str__(self) -> str:
        lines = [f"This step failed: {self.step}"]
        if self._excerpt:
            where = f" of {self.log}" if isinstance(self.log, Path) else ""
            lines.append(f"The last lines{where}:")
            lines += [f"    {line}" for line in self._excerpt]
        lines.append(f"What to do: {self.advice}")
        return "\n".join(lines)


def last_lines(log: Path | str | None, count: int = _LOG_LINES_SHOWN) -> list[str]:
    """Return the last `count` non-empty lines of a log file or text, without a log none."""
    if isinstance(log, Path):
        log = log.read_text(errors="replace") if log.exists() else ""
    return [line for line in (log or "").splitlines() if line.strip()][-count:]


def echo(message: str) -> None:
    """Print a message for the user to standard error."""
    print(message, file=sys.stderr, flush=True)
