"""Windows of the past, recomputed in one pass, are those that were read at their time."""

from itertools import count

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from allocator_service.ledger.audit.moving_windows import Amount
from allocator_service.ledger.audit.running_sums import RunningSums
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.models import Kind
from allocator_service.ledger.windows import amounts_in, known_entries
from allocator_service.pools.services import pool_create
from allocator_service.pools.windows import Past
from allocator_service.tenants.services import tenant_create
from tests.examples import examples
from tests.integration import conftest
from tests.integration.conftest import NOON
from tests.integration.ledger.test_windows import events, instants, write

_numbers = count()

reads = st.tuples(
    st.just("read"),
    instants,
    st.one_of(st.none(), instants),
    st.one_of(st.none(), st.sampled_from([60.0, 86_400.0])),
)
NOTHING = Amount(0.0, 0.0)


def past_from(until, since, half_life):
    if half_life is not None:
        return Past(None, until, half_life)
    return Past(None if since is None else min(since, until), until)


@pytest.mark.django_db
@examples(250, suppress_health_check=list(HealthCheck))
@given(
    drawn=st.lists(st.one_of(events, reads), min_size=1, max_size=14),
    forward=st.booleans(),
)
def test_each_window_counts_what_was_known_when_it_was_read(drawn, forward):
    """Late entries, corrections and what is not sealed; windows that move on, back, or change."""
    with transaction.atomic():
        number = next(_numbers)
        pool = pool_create(slug=f"p{number}", settings=conftest.settings(), now=NOON)
        tenants = {
            slug: tenant_create(slug=f"{slug}{number}", name=slug, now=NOON) for slug in "ab"
        }
        if forward:  # windows of one kind that move on, as those of decisions do
            asked = [step[1:] for step in drawn if step[0] == "read"]
            untils = iter(sorted(until for until, _, _ in asked))
            sinces = iter(sorted(since for _, since, _ in asked if since is not None))
            drawn = [
                (step[0], next(untils), step[2] and next(sinces), None)
                if step[0] == "read"
                else step
                for step in drawn
            ]
        read = []
        for step in drawn:
            if step[0] == "read":
                past = past_from(*step[1:])
                known = known_entries(pool)
                read.append((past, known, amounts_in(pool, past), known_first(pool)))
            else:
                write(pool, tenants, step)
        entries_seal(now=NOON)
        sums = RunningSums(pool.pk)
        for past, known, state, first in read:
            found = sums.at(past, known)
            assert found.gone == 0
            assert found.first == first
            told = {(*key, Kind.USAGE.value): amount for key, amount in state.used.items()}
            told |= {(*key, Kind.ALONE.value): amount for key, amount in state.alone.items()}
            for key in told.keys() | found.amounts.keys():
                amount = found.amounts.get(key, NOTHING)
                assert abs(float(told.get(key, 0)) - amount.value) <= amount.noise
                if past.half_life is None:
                    assert amount.noise == 0
        transaction.set_rollback(True)


def known_first(pool):
    return pool.entries.order_by("start").values_list("start", flat=True).first()
