"""Errors of rounds, by where they must be corrected."""


class AgentError(Exception):
    """An error that ends a round.

    `exit_code` is the exit code of `--once`.
    """

    exit_code = 1


class Misconfigured(AgentError):
    """A mistake in the configuration, after which no later round can succeed."""

    exit_code = 2


class ServiceAway(AgentError):
    """The service does not answer. The scheduler's last limits stay in force."""

    exit_code = 3


class SchedulerAway(AgentError):
    """The scheduler does not answer, or refused a command."""

    exit_code = 4


class Refused(AgentError):
    """A refusal of the service, with its status, its stable code and its explanation."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"the service refused ({status} {code}): {detail}")
        self.status, self.code, self.detail = status, code, detail
