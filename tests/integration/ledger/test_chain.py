"""The chain of a pool: what an outsider recomputes from exports, with published decisions in it."""

import itertools
import json
import runpy
import subprocess
import sys
from datetime import timedelta

import pytest
from django.db import connection

from allocator_service.allocation.audit.ledger import ledgers_verify
from allocator_service.allocation.models import Allocation, Run
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.core.clock import utc_now
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.models import Block, PendingDecision, SealedDecision
from allocator_service.pools.recompute import decision_request
from launcher.folders import PROJECT
from tests import factories
from tests.api.v1.test_ledger_export import ODD, add, body
from tests.superuser import as_superuser

pytestmark = pytest.mark.django_db(transaction=True)

script = runpy.run_path(str(PROJECT / "docs/examples/recompute_chain.py"))
recompute, count_newer = script["recompute"], script["count_newer"]


def decide(pool):
    decision_request(pool, now=utc_now())
    run = recompute_pool(pool_id=pool.pk, clock=utc_now, early=True)
    assert run is not None
    assert run.status == "succeeded"
    return run


def seal():
    entries_seal(now=utc_now())


@pytest.fixture
def chained(world):
    """Blocks of entries and decisions, of entries only, of a decision only, beside another pool's."""
    runs = [decide(world.lab)]
    for number, written in enumerate(ODD):
        add(world.lab, world.ada, written, world.bob, microseconds=number * 100_000)
        add(world.other, world.eve, written)
    seal()
    add(world.lab, world.bob)
    seal()
    runs += [decide(world.lab), decide(world.other)]
    seal()
    world.runs = runs
    return world


def exported(client, pool="lab", limit=2):
    """The entries, the blocks by pages of two, and the proofs, as an auditor fetches them."""
    entries = body(client.get(f"/api/v1/ledger-entries/export/?format=ndjson&pool={pool}"))
    blocks, url = [], f"/api/v1/ledger-blocks/?pool={pool}&limit={limit}"
    while url:
        page = client.get(url)
        assert page.status_code == 200
        blocks += [json.dumps(block) for block in json.loads(page.content)["results"]]
        url = json.loads(page.content)["next"]
    runs = Run.objects.filter(pool__slug=pool, status="succeeded")
    proofs = [json.loads(client.get(f"/api/v1/runs/{run.pk}/proof/").content) for run in runs]
    return entries.decode().splitlines(keepends=True), blocks, proofs


def faults(entries, blocks, proofs=()):
    return list(recompute(iter(entries), iter(blocks), proofs))


@pytest.mark.parametrize("pool", ["lab", "other"])
def test_an_auditor_recomputes_every_digest_from_exports(chained, billing, pool):
    entries, blocks, proofs = exported(billing, pool)
    assert faults(entries, blocks, proofs) == []
    sizes = [(json.loads(b)["entries"], len(json.loads(b)["decisions"])) for b in blocks]
    first = len(ODD)
    assert sizes == {"lab": [(first, 1), (1, 0), (0, 1)], "other": [(first, 0), (0, 1)]}[pool]
    assert len(proofs) == {"lab": 2, "other": 1}[pool]


def test_an_auditor_finds_whatever_was_changed(chained, billing):
    entries, blocks, proofs = exported(billing)
    changed = [line.replace('"quantity":"0.25"', '"quantity":"0.26"') for line in entries]
    swapped = [entries[1], entries[0], *entries[2:]]
    forged = json.loads(json.dumps(proofs[0]))
    forged["answer"]["allocations"][0]["tasks"] += 1
    later = [json.loads(block) for block in blocks]
    later[2]["decisions"][0]["effective_from"] = "2026-01-01T00:00:00Z"
    assert faults(changed, blocks, proofs)[0] == "block 1 has another digest"
    assert faults(swapped, blocks) != []
    assert faults(entries[1:], blocks) == ["block 1 has another digest"]
    assert faults(entries[:-1], blocks) == [
        "block 2 has 1 entries and the export only 0 of them:"
        " they were removed, or the entries were exported before the blocks"
    ]
    assert faults(entries, blocks[1:])[0] == "block 1 is missing"
    assert faults(entries[:4] + entries[5:], blocks) == ["block 1 has another digest"]
    assert faults(entries, blocks, [forged]) == [
        f"the answer of run {forged['run']} is not what was sealed"
    ]
    assert faults(entries, map(json.dumps, later)) == ["block 3 has another digest"]
    assert faults(entries, blocks, [{**forged, "run": "another"}]) == ["run another is in no block"]


def test_an_export_that_ends_early_is_one_fault_however_many_blocks_follow(chained, billing):
    _, blocks, _ = exported(billing)
    assert faults([], blocks) == [
        f"block 1 has {len(ODD)} entries and the export only 0 of them:"
        " they were removed, or the entries were exported before the blocks",
        "later blocks whose entries the export lacks, too: 1",
    ]


def test_entries_sealed_while_the_files_are_fetched_are_newer_and_no_fault(chained, billing):
    _, blocks, _ = exported(billing)
    for _ in range(2):
        add(chained.lab, chained.bob)
        seal()
    entries, later, _ = exported(billing)
    assert faults(entries, blocks) == []
    assert (count_newer(entries, blocks), count_newer(entries, later)) == (2, 0)
    assert faults(entries, blocks[:1]) == []
    # Tampering below the last block is found all the same.
    changed = [line.replace('"quantity":"0.25"', '"quantity":"0.26"') for line in entries]
    assert faults(changed, blocks)[0] == "block 1 has another digest"
    removed = entries[:-3] + entries[-2:]
    assert faults(removed, blocks) == ["block 2 has another digest"]


def run_script(folder, *contents):
    """Run the script as people do, on files of these contents."""
    names = ["entries.ndjson", "blocks.ndjson", "proof.json"][: len(contents)]
    for name, content in zip(names, contents, strict=True):
        (folder / name).write_text(content)
    command = [sys.executable, str(PROJECT / "docs/examples/recompute_chain.py"), *names]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_document_of_an_error_is_refused_with_a_sentence(chained, billing, tmp_path):
    entries, blocks, proofs = exported(billing)
    good = ["".join(entries), "\n".join(blocks), json.dumps(proofs[0])]
    done = run_script(tmp_path, *good)
    assert (done.returncode, done.stdout) == (0, "every block has the digest that its lines make\n")
    answer = billing.get("/api/v1/ledger-entries/export/?format=ndjson&pool=Odd%20Name")
    assert answer.status_code == 400
    error = answer.content.decode()
    names = ["entries.ndjson", "blocks.ndjson", "proof.json"]
    for number, name in enumerate(names):
        for wrong_content, why in (
            (error, json.loads(error)["detail"]),
            ("<html>", "it does not begin with a JSON document"),
            ("[]", "its first line has no `"),
        ):
            contents = [*good[:number], wrong_content, *good[number + 1 :]]
            done = run_script(tmp_path, *contents)
            assert done.returncode == 1
            assert done.stderr.startswith(f"{name} is not an export: {why}")
            assert "Traceback" not in done.stderr
            assert done.stdout == ""


def test_a_file_that_is_missing_on_the_command_line_is_named_by_the_usage(tmp_path):
    done = run_script(tmp_path, "")
    assert done.returncode == 1
    assert "python recompute_chain.py entries.ndjson blocks.ndjson" in done.stderr


def wrong(chained):
    return {check.name for check in ledgers_verify(now=utc_now()) if not check.holds}


@pytest.mark.parametrize(
    ("tampering", "names"),
    [
        ("UPDATE run_allocation SET tasks = tasks + 1e-13 WHERE position = 0", {"decisions"}),
        ("UPDATE run_allocation SET limited_by = 'task_limit'", {"decisions"}),
        ("UPDATE ledger_decision SET generation = generation + 1", {"chain"}),
        ("UPDATE ledger_decision SET answer = input", {"chain", "decisions"}),
        ("DELETE FROM ledger_decision", {"chain"}),
        ("UPDATE ledger_block SET decisions = 0 WHERE entries > 0", {"chain"}),
    ],
)
def test_verify_finds_a_decision_that_a_superuser_changed(chained, tampering, names):
    assert wrong(chained) == set()
    as_superuser(tampering)
    assert wrong(chained) == names


def test_a_decision_that_never_reached_the_chain_is_found(chained):
    last = chained.runs[1]
    as_superuser(f"DELETE FROM ledger_decision WHERE run_id = '{last.pk}'")
    as_superuser(f"DELETE FROM ledger_block WHERE number = 3 AND pool_id = {chained.lab.pk}")
    (found,) = (each for each in ledgers_verify(now=utc_now()) if not each.holds)
    assert (found.name, found.detail) == ("decisions", f"run {last.pk} of pool lab: chain")


def test_decisions_wait_for_the_sealer_like_entries(world):
    run = decide(world.lab)
    (pending,) = PendingDecision.objects.all()
    assert pending.pk == run.pk
    assert wrong(world) == set()
    (late,) = (
        each
        for each in ledgers_verify(now=utc_now() + timedelta(minutes=2))
        if each.name == "decisions_sealed"
    )
    assert not late.holds
    seal()
    assert not PendingDecision.objects.exists()
    (sealed,) = SealedDecision.objects.all()
    (block,) = Block.objects.all()
    assert (sealed.block, block.entries, block.decisions, block.format) == (1, 0, 1, 2)
    assert (block.first_sequence, block.last_sequence) == (None, None)
    seal()
    assert Block.objects.count() == 1


FORMAT_1 = """
UPDATE ledger_block b SET format = 1, digest = sha256(convert_to((
    SELECT string_agg(jsonb_build_array(
        s.sequence, e.id, e.pool_id, e.tenant_id, e.server_owner_id, e.workload_id, e.resource, e.unit,
        e.quantity, extract(epoch FROM e.start), extract(epoch FROM e."end"), e.amount, e.kind,
        e.corrects, e.reason, e.source, e.event_id, e.run_id, extract(epoch FROM e.recorded_at))::text,
        E'\\n' ORDER BY s.sequence)
    FROM ledger_seal s JOIN ledger_entry e ON e.id = s.entry_id AND e.start = s.start
    WHERE s.pool_id = b.pool_id AND s.block = b.number), 'UTF8'))
"""


def test_a_chain_that_began_in_the_former_format_goes_on(world, billing):
    add(world.lab, world.ada)
    seal()
    as_superuser(FORMAT_1)
    run = decide(world.lab)
    add(world.lab, world.bob)
    seal()
    assert list(Block.objects.values_list("number", "format")) == [(1, 1), (2, 2)]
    assert wrong(world) == set()
    entries, blocks, proofs = exported(billing)
    assert faults(entries, blocks, proofs) == []
    as_superuser("UPDATE ledger_entry SET reason = 'x' WHERE tenant_id = %s", world.ada.pk)
    assert wrong(world) == {"chain"}
    as_superuser("UPDATE ledger_entry SET reason = '' WHERE tenant_id = %s", world.ada.pk)
    as_superuser("UPDATE ledger_block SET format = 1 WHERE number = 2")
    assert wrong(world) == {"chain"}
    assert Allocation.objects.filter(run=run).exists()


@pytest.mark.parametrize("role", ["operator", "billing", "tenant"])
def test_only_those_who_see_every_tenant_read_the_blocks(chained, operator, billing, role):
    client = {"operator": operator, "billing": billing, "tenant": chained.as_ada}[role]
    answer = client.get("/api/v1/ledger-blocks/?pool=lab")
    assert answer.status_code == (403 if role == "tenant" else 200)
    assert b"lab" not in answer.content or role != "tenant"


def test_the_blocks_of_a_pool_go_on_after_a_number(chained, billing):
    page = json.loads(billing.get("/api/v1/ledger-blocks/?pool=lab&after=2").content)
    assert [block["number"] for block in page["results"]] == [3]
    assert page["next"] is None
    assert json.loads(billing.get("/api/v1/ledger-blocks/?pool=none").content)["results"] == []
    assert billing.get("/api/v1/ledger-blocks/").status_code == 400


def test_digests_sealed_at_publication_are_those_of_the_stored_proof(chained, operator):
    for run, part in itertools.product(chained.runs, ("input", "answer")):
        proof = json.loads(operator.get(f"/api/v1/runs/{run.pk}/proof/").content)
        sealed = SealedDecision.objects.get(pk=run.pk)
        assert proof["digests"][part] == bytes(getattr(sealed, part)).hex()


def test_a_tenants_key_of_a_pool_that_shares_nothing_else_sees_no_block(chained):
    assert (
        factories.client("tenant", chained.eve).get("/api/v1/ledger-blocks/?pool=other").status_code
        == 403
    )
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM ledger_block")
        assert cursor.fetchone() == (5,)
