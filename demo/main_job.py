"""The main job as a user does it over HTTP: servers and demands in, a verified decision out."""

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
    """A published decision as the service gives it out.

    `run` is the computation, `allocations` one row per workload, `verification` the answer to
    verify; `seconds` is the time from the last change to the decision being in force.
    """

    run: dict[str, Any]
    allocations: list[dict[str, Any]]
    placements: list[dict[str, Any]]
    verification: dict[str, Any]
    seconds: float


def run_main_job(client: Client, *, check_service: Callable[[], None]) -> Decision:
    """Contribute, ask, wait for the decision, read it back and have it verified.

    `check_service` is called while waiting and raises when waiting has no sense.
    Raises `StepFailed` when a request is refused or no decision comes.
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
    """Make the pool with its tenants, servers and workloads; returns its last generation."""
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
    """The run of the first decision that knows the change `generation`."""
    deadline = time.monotonic() + _DECISION_SECONDS
    while time.monotonic() < deadline:
        answer = client.request("GET", f"{_POOL}/decision/")
        if answer.status == 200 and answer.body["generation"] >= generation:
            run: dict[str, Any] = answer.body["run"]
            return run
        check_service()
        time.sleep(0.02)
    runs = client.get(f"{_POOL}/runs/").body["results"]
    raise StepFailed(
        f"wait for a decision that knows change {generation}",
        "read the worker's and the relay's log",
        log="\n".join(f"run {run['id']}: {run['status']} {run['error'] or ''}" for run in runs),
    )
