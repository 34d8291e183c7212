"""Findings of `allocator-agent check`, as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from allocator_agent.errors import AgentError

OK, NOTE, MISSING = "ok", "note", "missing"


@dataclass(frozen=True)
class Finding:
    """One requirement of the agent, with what to do if it is missing."""

    state: str
    text: str
    remedy: str = ""
    exit_code: int = 0

    def lines(self) -> list[str]:
        """Return the finding, its remedy below it."""
        first = f"  {self.state:<8} {self.text}"
        return [first, f"  {'':<8} -> {self.remedy}"] if self.remedy else [first]


@dataclass
class Section:
    """Findings about one side of the agent."""

    title: str
    findings: list[Finding] = field(default_factory=list)

    def ok(self, text: str) -> None:
        """Add a requirement that is met."""
        self.findings.append(Finding(OK, text))

    def note(self, text: str, remedy: str = "") -> None:
        """Add a fact that stops nothing."""
        self.findings.append(Finding(NOTE, text, remedy))

    def missing(self, text: str, remedy: str, exit_code: int = 1) -> None:
        """Add a requirement that is not met."""
        self.findings.append(Finding(MISSING, text, remedy, exit_code))

    def require(self, condition: object, text: str, missing: str, remedy: str) -> None:
        """Add a requirement that a condition decides."""
        if condition:
            self.ok(text)
        else:
            self.missing(missing, remedy)

    @contextmanager
    def attempt(self, remedy: str) -> Iterator[None]:
        """Record an error as missing, with the exit code that a round would end with."""
        try:
            yield
        except AgentError as error:
            self.missing(str(error), remedy, error.exit_code)

    def lines(self) -> list[str]:
        """Return the section as it is printed."""
        return [self.title, *(line for finding in self.findings for line in finding.lines())]


def exit_code(sections: Sequence[Section]) -> int:
    """Return 0 if nothing is missing.

    A wrong configuration comes before a service that is away, and that before a scheduler that is.
    """
    # A later failure often follows from an earlier one.
    codes = {finding.exit_code for section in sections for finding in section.findings} - {0}
    return next((code for code in (2, 3, 4, 1) if code in codes), 0)


def summary(sections: Sequence[Section]) -> str:
    """Return the last line of a check."""
    states = [finding.state for section in sections for finding in section.findings]
    if not states.count(MISSING):
        return "Nothing is missing."
    return f"{states.count(MISSING)} missing, {states.count(OK)} ok."
