"""What of a run a caller may see: routes and pages ask here, so that they agree."""

from typing import Any

from allocator_service.allocation.audit.decisions import refuse_undecided, run_proof
from allocator_service.allocation.models import Run
from allocator_service.allocation.selectors import input_of, run_get
from allocator_service.core.errors import Missing
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from api.contract.fields import uuid_or_none
from api.v1.runs.inputs import input_for
from api.views import ContractView


def sees_whole(pool: Pool, tenant: Tenant | None) -> bool:
    """Whether a caller may see what tells of all members of a pool."""
    return tenant is None or pool.transparent


def sees_whole_of(view: ContractView, pool: Pool) -> bool:
    """Return true if the caller of a view may see what concerns all members of a pool."""
    if view.caller.group is not None:
        return pool.transparent
    return sees_whole(pool, view.tenant)


def visible_run(text: str, *, caller: Tenant | None) -> Run:
    """The run of this id. Raises `Missing` unless the caller may see its pool."""
    run_id = uuid_or_none(text)
    if run_id is None:
        raise Missing("There is no such run.", code="run.not_found")
    return run_get(run_id=run_id, tenant=caller)


def whole_run(text: str, *, caller: Tenant | None) -> Run:
    """The run of this id. Raises `Missing` unless the caller may see all of it."""
    run = visible_run(text, caller=caller)
    if not sees_whole(run.pool, caller):
        raise Missing("There is no such run.", code="run.not_found")
    return run


def proof_for(run: Run, *, caller: Tenant | None) -> dict[str, Any]:
    """All that an outsider needs to verify the decision, with the names that the caller may know.

    Raises `Conflict` for a run that decided nothing, `Gone` once its input is pruned.
    """
    refuse_undecided(run)
    document = input_for(input_of(run), pool=run.pool, caller=caller)
    return run_proof(run, document)
