"""The main job of a user over HTTP, from servers and demands to a verified decision."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from demo import sample
from launcher.client import Client
from launcher.console import StepFailed, echo

_ROOT = "/api/v1"
_POOL = f"{_ROOT}/pools/{sample.POOL['slug']}"
_DECISION_SECONDS = 120.0


@dataclass(frozen=True)
class Decision:
    """A published decision as the service returns it.

    Attributes:
        run: The computation.
        allocations: One row per workload.
        placements: Tasks on servers.
        verification: Result of the verification.
        seconds: Time from the last change until the decision was in force.
    """

    run: dict[str, Any]
    allocations: list[dict[str, Any]]
    placements: list[dict[str, Any]]
    verification: dict[str, Any]
    seconds: float


def run_main_job(client: Client, *, check_service: Callable[[], None]) -> Decision:
    """Submit servers and workloads, wait for the decision, read it and request its verification.

    `check_service` is called during the wait, and raises an exception to end it.
    Raises `StepFailed` if a request is refused or there is no decision in time.
    """
    generation = _submit(client)
    submitted = time.monotonic()
    run = _await_decision(client, generation, check_service)
    seconds = time.monotonic() - submitted
    echo(f"The decision is in force {seconds:.2f} s after the last change; verifying it ...")
    path = f"{_ROOT}/runs/{run['id']}"
    return Decision(
        run=run,
        allocations=client.pages(f"{path}/allocations/"),
        placements=client.pages(f"{path}/placements/"),
        verification=client.post(f"{path}/verify/", {}).body,
        seconds=seconds,
    )


def _submit(client: Client) -> int:
    """Create the pool with its tenants, servers and workloads, and return its last generation."""
    for group in sample.GROUPS:
        client.post(f"{_ROOT}/tenants/", {"slug": group.slug, "name": group.name})
    client.post(f"{_ROOT}/pools/", sample.POOL)
    created = 0
    for body in sample.server_requests():
        created += client.post(f"{_POOL}/servers/", body).body["created"]
    answer = client.post(f"{_POOL}/workloads/", sample.workload_request())
    echo(f"{len(sample.GROUPS)} groups brought {created:,} servers and asked for what they need.")
    return int(answer.headers["Pool-Generation"])


def _await_decision(
    client: Client, generation: int, check_service: Callable[[], None]
) -> dict[str, Any]:
    """Wait for the first decision that includes the change `generation`, and return its run."""
    deadline = time.monotonic() + _DECISION_SECONDS
    while time.monotonic() < deadline:
        answer = client.request("GET", f"{_POOL}/decision/")
        # A later decision includes the change as well.
        if answer.status == 200 and answer.body["generation"] >= generation:
            run: dict[str, Any] = answer.body["run"]
            return run
        # A service that has ended would never decide.
        check_service()
        time.sleep(0.02)
    # The pool's runs show whether a computation failed or none began.
    runs = client.get(f"{_POOL}/runs/").body["results"]
    raise StepFailed(
        f"wait for a decision that includes change {generation}",
        "read the worker's and the relay's log",
        log="\n".join(f"run {run['id']}: {run['status']} {run['error'] or ''}" for run in runs),
    )
