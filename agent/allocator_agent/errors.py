"""What can go wrong, by who has to do something about it."""


class AgentError(Exception):
    """A round cannot go on; `exit_code` is what `--once` ends with."""

    exit_code = 1


class Misconfigured(AgentError):
    """The configuration is wrong: no later round can succeed."""

    exit_code = 2


class ServiceAway(AgentError):
    """The service does not answer. What the scheduler was told last stays in force."""

    exit_code = 3


class SchedulerAway(AgentError):
    """The scheduler does not answer, or refused a command."""

    exit_code = 4


class Refused(AgentError):
    """The service answered with a refusal: its status, its stable code and its explanation."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"the service refused ({status} {code}): {detail}")
        self.status, self.code, self.detail = status, code, detail
