"""`allocator-agent check` against an API server and the service, with each requirement taken away."""

import os
import subprocess
import sys

import pytest

from allocator_agent.kubernetes.rights import rights_of
from launcher.folders import PROJECT
from tests.live.kueue_site import NAMESPACES, QUEUES, Site, pool_for
from tests.unit.agent.kueue_crds import kueue_schemas

POOL = "kueue-check"


@pytest.fixture
def site():
    running = Site()
    running.add_node("n1", "big", 4)
    running.add_queue("a", {"big": 2})
    running.add_queue("b", {"big": 2})
    yield running
    running.server.stop()


@pytest.fixture(scope="module")
def pools(operator):
    """A flat pool, and one with a group, both with the members a and b."""
    pool_for(operator, POOL, {"a": 1, "b": 1})
    pool_for(operator, f"{POOL}-tree", {"a": 1, "b": 1})
    operator.post(f"/api/v1/pools/{POOL}-tree/groups/", {"slug": "labs", "name": "Labs"})


class Checked:
    """Runs of `check` for one pool and its own key."""

    def __init__(self, folder, site, service, pool):
        self._folder, self._site, self._service, self._pool = folder, site, service, pool
        self.key = service.manage(
            *("apikey", "create", "--scope", "agent", "--pool", pool),
            *("--name", f"{pool}-{folder.name}"),
        )
        self.token = site.server.TOKEN

    def __call__(self, *options, expect=0, scheduler="kueue", **kubernetes):
        token, file = self._folder / "token", self._folder / "agent.ini"
        token.write_text(self.token)
        settings = {"api": self._site.server.url, "token_file": token, **kubernetes}
        lines = [f"{name} = {value}" for name, value in settings.items()]
        file.write_text(
            f"[service]\nurl = {self._service.url}\npool = {self._pool}\n"
            f"[agent]\nname = kueue\nscheduler = {scheduler}\n[kubernetes]\n" + "\n".join(lines)
        )
        done = subprocess.run(
            [sys.executable, "-m", "allocator_agent", "check", "--config", file, *options],
            env={**os.environ, "PYTHONPATH": str(PROJECT / "agent"), "ALLOCATOR_KEY": self.key},
            capture_output=True,
            text=True,
        )
        assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr


@pytest.fixture
def checked(site, service, pools, tmp_path):
    return Checked(tmp_path, site, service, POOL)


@pytest.fixture
def checked_tree(site, service, pools, tmp_path):
    return Checked(tmp_path, site, service, f"{POOL}-tree")


def lines(text, state):
    """Return the findings of a state, without the state."""
    return [line[11:] for line in text.splitlines() if line.startswith(f"  {state} ")]


@pytest.mark.parametrize(
    ("scheduler", "quotas"),
    [("kueue", "spec"), ("kueue", "effective"), ("kubernetes", "spec")],
)
def test_nothing_is_missing_and_nothing_is_written(checked, site, scheduler, quotas):
    before = site.in_git()
    shown = checked(scheduler=scheduler, quotas=quotas)
    assert shown.splitlines()[-1] == "Nothing is missing."
    for text in (
        "the API server answers, version v1.34.0",
        "the clock of the API server agrees with this machine's within 2 s",
        "1 nodes, 0 of them out of service",
        "each of 2 members has its namespace",
    ):
        assert text in lines(shown, "ok")
    assert site.server.writes == []
    assert site.in_git() == before


def test_each_verb_that_may_not_be_used_is_missing(checked, checked_tree, site):
    """One after the other, of every kind of scheduler: the review of each is asked for."""
    for scheduler, quotas in (("kueue", "spec"), ("kueue", "effective"), ("kubernetes", "spec")):
        for run, has_groups in ((checked, False), (checked_tree, True)):
            rights = rights_of(scheduler, effective=quotas == "effective", has_groups=has_groups)
            site.server.forbidden = {(right.verbs[-1], right.name) for right in rights}
            shown = run(expect=1, scheduler=scheduler, quotas=quotas)
            assert lines(shown, "missing") == [
                f"may not {right.verbs[-1]} {right.name}" for right in rights
            ]
            assert "to the ClusterRole of the agent" in shown
    site.server.forbidden = {("update", "cohorts.kueue.x-k8s.io")}
    assert "Nothing is missing." in checked()  # a flat pool writes no cohorts
    assert lines(checked_tree(expect=1), "missing") == ["may not update cohorts.kueue.x-k8s.io"]


def test_an_api_server_that_refuses_the_token_or_is_away_ends_with_4(checked, site):
    checked.token = "another"
    assert "refused (401 Unauthorized)" in lines(checked(expect=4), "missing")[0]
    shown = checked(expect=4, api="http://127.0.0.1:1")
    assert "http://127.0.0.1:1 does not answer" in lines(shown, "missing")[0]
    assert "the key may import" in shown


def test_kueue_has_to_be_installed_in_its_version(checked, site):
    site.server.versions = []
    assert lines(checked(expect=1), "missing") == ["Kueue is not installed"]
    site.server.versions = ["v1alpha1", "v1beta1"]
    assert lines(checked(expect=1), "missing") == ["Kueue serves v1alpha1, v1beta1 only"]
    assert "Nothing is missing." in checked(scheduler="kubernetes")


def test_effective_quotas_need_their_field(checked, checked_tree, site):
    assert "DynamicQuotaOrchestration" in checked(quotas="effective")  # what cannot be seen
    site.server.schemas = kueue_schemas(effective=False)
    shown = checked(expect=1, quotas="effective")
    assert lines(shown, "missing") == [
        "the status of ClusterQueue has no effectiveQuotas: Kueue is too old"
    ]
    assert "set [kubernetes] quotas = spec" in shown
    assert "Nothing is missing." in checked()
    site.server.schemas["clusterqueues"] = kueue_schemas()["clusterqueues"]
    assert lines(checked_tree(expect=1, quotas="effective"), "missing") == [
        "the status of Cohort has no effectiveQuotas: Kueue is too old"
    ]


def test_queues_that_are_missing_or_of_others_are_listed(checked, site):
    queue = site.server.objects[QUEUES, "", "b"]
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "DynamicQuotaOrchestrator", "name": "own"}
    status = {"effectiveQuotas": {"orchestratorRef": reference, "resourceGroups": []}}
    site.server.put(QUEUES, {**queue, "status": status})
    site.server.delete(QUEUES, "", "a")
    assert lines(checked(expect=1, quotas="effective"), "missing") == [
        "members without a ClusterQueue of their name: a",
        "ClusterQueue b has effective quotas of DynamicQuotaOrchestrator own",
    ]
    assert lines(checked(), "note") == ["queues of others that the first round changes: b"]


def test_namespaces_and_labels_are_compared(checked, site):
    site.server.delete(NAMESPACES, "", "a")
    site.server.put(NAMESPACES, {"metadata": {"name": "team-c"}})
    shown = checked(expect=1, class_label="kind")
    assert lines(shown, "missing") == ["members without namespace: a"]
    assert "kubectl create namespace a" in shown
    notes = lines(shown, "note")
    assert "1 nodes lack the label kind, such as n1: they are one class of their own" in notes
    assert "without a limit, as they are not members: team-c" in notes
