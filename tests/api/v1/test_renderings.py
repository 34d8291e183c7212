"""Decisions as the limits of schedulers, over REST."""

import pytest

from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)

SLURM = "/api/v1/pools/lab/decision/renderings/slurm/"


@pytest.fixture
def decided(world):
    """DRFH Fig. 2, decided: ada's tasks on the server with much memory, bob's on the other."""
    return factories.decision(world.lab)


def test_without_a_decision_there_is_nothing_to_render(world, operator):
    answer = operator.get(SLURM)
    assert answer.status_code == 404
    assert answer.json()["code"] == "decision.none"


def test_an_account_of_each_member_has_its_decision_in_whole_units(world, decided, operator):
    document = operator.get(SLURM).json()
    print(document)
    print(operator.get(SLURM, Accept="text/plain").content.decode())
    assert document["run"] == str(decided.pk)
