"""A tree of accounts in Slurm and of groups in the pool: what runs is what the tree decides."""

from tests.examples import long
from tests.slurm.conftest import UNCHANGED, decided_tasks, eventually, pool_for
from tests.slurm.test_accounts import below

ANYWHERE = ("--partition=big,small",)


def member(operator, pool, tenant, **terms):
    """Put a member's terms, at the version that it has."""
    path = f"{pool}/members/{tenant}/"
    tag = operator.get(path).headers["ETag"]
    answer = operator.request("PUT", path, terms, {"If-Match": tag})
    assert answer.status == 200, answer.body


def groups(operator, pool, *rows):
    operator.post(
        f"{pool}/groups/", [{"slug": slug, "name": slug, **terms} for slug, terms in rows]
    )


def parts(text):
    """GrpTRES as numbers of CPUs."""
    return {account: int(tres.partition("cpu=")[2].split(",")[0]) for account, tres in text.items()
            if "cpu=" in tres}  # fmt: skip


def shares(cluster):
    told = cluster.run("sacctmgr", "-nP", "show", "association", "format=account,user,fairshare")
    rows = (line.split("|") for line in told.splitlines())
    return {account: int(share) for account, user, share in rows if not user and account != "root"}


def three_levels(operator, agent, cluster):
    """science > labs > vision, speech; science > genes > genomics: accounts, then groups and members."""
    pool = pool_for(operator, agent)
    cluster.run("sacctmgr", "-i", "add", "account", "science")
    cluster.run("sacctmgr", "-i", "add", "account", "labs,genes", "parent=science")
    below(cluster, "labs", "vision", "speech")
    below(cluster, "genes", "genomics")
    groups(
        operator,
        pool,
        ("science", {}),
        ("labs", {"parent": "science", "weight": 3}),
        ("genes", {"parent": "science"}),
    )
    agent.run("--once", expect=1)  # new members belong to the pool itself, their accounts to groups
    member(operator, pool, "vision", group="labs", weight=2)
    member(operator, pool, "speech", group="labs")
    member(operator, pool, "genomics", group="genes")
    return pool


def test_the_tree_of_a_real_slurm_is_imported(operator, agent, quiet):
    """Its groups, members and weights, and again after the agent has written fair shares."""
    pool = pool_for(operator, agent)
    for name, parent, share in (
        ("science", "root", 2), ("labs", "science", 30), ("Gene_Lab", "science", 10),
        ("vision", "labs", 2), ("speech", "labs", 1), ("genomics", "Gene_Lab", 1),
    ):  # fmt: skip
        options = (f"parent={parent}", f"fairshare={share}")
        quiet.run("sacctmgr", "-i", "add", "account", name, *options)
    leaves = "vision,speech,genomics"
    quiet.run("sacctmgr", "-i", "add", "user", quiet.user, f"account={leaves}")

    def imported(flag, *columns):
        told = quiet.run("sacctmgr", flag, "show", "association", "tree", *columns)
        body = {"content": told, "format": "sacctmgr", "register_tenants": True}
        return operator.post(f"{pool}/imports/groups/", body).body["counts"]

    assert imported("-P") == {"added": 6, "changed": 0, "unchanged": 0, "refused": 0, "skipped": 5}
    rows = operator.pages(f"{pool}/groups/")
    assert {row["slug"]: (row["name"], row["parent"], row["weight"]) for row in rows} == {
        "science": ("science", None, 2),
        "labs": ("labs", "science", 30),
        "gene-lab": ("gene_lab", "science", 10),  # Slurm keeps names in small letters
    }
    rows = operator.pages(f"{pool}/members/")
    assert {row["tenant"]: (row["group"], row["weight"]) for row in rows} == {
        "vision": ("labs", 2), "speech": ("labs", 1), "genomics": ("gene-lab", 1),
    }  # fmt: skip
    agent.run("--once")  # before it, accounts have no limits
    for account in ("vision", "speech", "genomics"):
        quiet.submit(account, *ANYWHERE, count=20)
    agent.run("--once")
    assert decided_tasks(operator, pool) == {"vision": 8, "speech": 4, "genomics": 4}
    eventually(lambda: quiet.jobs("RUNNING") == {"vision": 8, "speech": 4, "genomics": 4})
    assert shares(quiet)["gene_lab"] == 10_000
    assert imported("-p", "format=account,user")["unchanged"] == 6


def test_three_levels_of_accounts_run_what_the_tree_decides(operator, agent, quiet):
    pool = three_levels(operator, agent, quiet)
    for account in ("vision", "speech", "genomics"):
        quiet.submit(account, *ANYWHERE, count=20)
    agent.run("--once")
    # 16 CPUs: 3 to 1 between the groups, then 2 to 1 within labs.
    decided = decided_tasks(operator, pool)
    assert decided == {"vision": 8, "speech": 4, "genomics": 4}
    eventually(lambda: quiet.jobs("RUNNING") == decided)
    assert parts(quiet.limits()) == {**decided, "labs": 12, "genes": 4, "science": 16}
    assert shares(quiet) == {
        "science": 1000, "labs": 3000, "genes": 1000, "vision": 2000, "speech": 1000,
        "genomics": 1000,
    }  # fmt: skip
    agent.run("--once")
    state = operator.get(f"{pool}/enforcement/").body
    assert {row["tenant"]: (row["used"]["cpu"], row["drift"]) for row in state["tenants"]} == {
        tenant: (str(tasks), {}) for tenant, tasks in decided.items()
    }
    assert UNCHANGED in agent.run("--dry-run")


@long
def test_jobs_above_a_lowered_limit_do_not_stop_a_sibling(operator, agent, quiet):
    """13 jobs of vision go on where fewer are decided; speech starts on the CPUs that are free."""
    pool = three_levels(operator, agent, quiet)
    quiet.submit("vision", *ANYWHERE, count=13)
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"vision": 13})
    quiet.submit("speech", *ANYWHERE, count=9)
    quiet.submit("genomics", *ANYWHERE, "--hold", count=1)
    agent.run("--once")
    decided = decided_tasks(operator, pool)
    assert decided == {"vision": 10, "speech": 6}
    assert parts(quiet.limits())["labs"] == 13 + decided["speech"]
    eventually(lambda: quiet.jobs("RUNNING") == {"vision": 13, "speech": 3})
    quiet.run("scancel", "--account=vision", "--state=RUNNING")
    eventually(lambda: quiet.jobs("RUNNING") == {"speech": 6})
    agent.run("--once")
    assert parts(quiet.limits())["labs"] == sum(decided_tasks(operator, pool).values()) == 9


def test_groups_that_are_made_moved_and_retired_are_followed(operator, agent, quiet):
    pool = three_levels(operator, agent, quiet)
    for account in ("vision", "speech", "genomics"):
        quiet.submit(account, *ANYWHERE, count=20)
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"vision": 8, "speech": 4, "genomics": 4})

    # Made: the account exists before anything is below it, and is no member.
    quiet.run("sacctmgr", "-i", "add", "account", "audio", "parent=labs")
    groups(operator, pool, ("audio", {"parent": "labs"}))
    agent.run("--once")
    assert "audio" not in {row["tenant"] for row in operator.pages(f"{pool}/members/")}
    assert "audio" not in parts(quiet.limits())
    member(operator, pool, "speech", group="audio")
    shown = agent.run("--once", expect=1)  # Slurm's tree is another one until the account is moved
    assert "account speech is below labs in Slurm, and below audio in the pool" in shown
    quiet.run("sacctmgr", "-i", "modify", "account", "speech", "set", "parent=audio")
    agent.run("--once")
    assert parts(quiet.limits())["audio"] == 4

    # Moved: everything below goes along, and the sums of the old and the new parents follow.
    operator.patch(f"{pool}/groups/audio/", {"parent": "genes"})
    quiet.run("sacctmgr", "-i", "modify", "account", "audio", "set", "parent=genes")
    quiet.run("scancel", f"--user={quiet.user}")
    eventually(lambda: not quiet.run("squeue", "--noheader"), seconds=60)
    agent.run("--once")
    for account in ("vision", "speech", "genomics"):
        quiet.submit(account, *ANYWHERE, count=20)
    agent.run("--once")
    decided = decided_tasks(operator, pool)
    assert decided == {"vision": 12, "speech": 2, "genomics": 2}
    eventually(lambda: quiet.jobs("RUNNING") == decided)
    assert parts(quiet.limits()) == {
        **decided, "labs": 12, "audio": 2, "genes": 4, "science": 16,
    }  # fmt: skip

    # Retired: its limit goes, and the account below it runs on under that of its member.
    member(operator, pool, "speech", group="genes")
    tag = operator.get(f"{pool}/groups/audio/").headers["ETag"]
    path = f"{pool}/groups/audio/"
    assert operator.request("DELETE", path, headers={"If-Match": tag}).status == 204
    shown = agent.run("--once")
    for text in (
        "~ account audio",
        "cpu 2 -> unlimited",
        "mem 512 -> unlimited",
        "the pool has no",
    ):
        assert text in shown
    limits = parts(quiet.limits())
    assert "audio" not in limits
    assert limits["genes"] == limits["speech"] + limits["genomics"]
    assert UNCHANGED in agent.run("--dry-run")
