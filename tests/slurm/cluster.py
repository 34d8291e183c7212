"""A whole Slurm on this machine: munge, MariaDB, slurmdbd, slurmctld and a slurmd for each node.

The sizes of the nodes are made up (`config_overrides`); nothing is installed and nothing listens but
on 127.0.0.1.
"""

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.processes import Process, start, stop

CLUSTER = "lab"
_PATIENCE_SECONDS = 60.0
_GROUP = 70_000  # of all people
_FIRST_USER = 70_000  # the number of the first of the people


@dataclass(frozen=True)
class Node:
    """A node with made-up sizes; memory in MiB."""

    name: str
    cpus: int
    memory: int
    partition: str
    gpus: tuple[tuple[str, int], ...] = ()  # types and counts
    features: tuple[str, ...] = ()


class Cluster:
    """The running daemons, and the commands of Slurm that ask them."""

    def __init__(
        self,
        prefix: Path,
        state: Path,
        nodes: Sequence[Node],
        switches: Mapping[str, Sequence[str]] | None = None,
        people: Sequence[str] = (),
        licences: str = "",
        threads: int = 1,
    ) -> None:
        """Describe a cluster; `switches` are the nodes of each, all below one root.

        `people` are users whom this machine does not have, `threads` the CPUs of a core.
        """
        self.prefix, self.state, self.nodes = prefix, state, tuple(nodes)
        self.switches = switches or {}
        self.licences, self.threads = licences, threads
        self.user = pwd.getpwuid(os.getuid()).pw_name
        daemons = ("ctld", "dbd", *(node.name for node in nodes))
        self.ports = dict(zip(daemons, _free(len(daemons)), strict=True))
        multiarch = next(path for path in (prefix / "usr/lib").glob("*-linux-gnu"))
        libraries = [multiarch, multiarch / "slurm-wlm"]
        self.plugins = multiarch / "slurm-wlm"
        self.environment = {
            "PATH": f"{prefix / 'usr/bin'}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
            "SLURM_CONF": str(state / "slurm.conf"),
        }
        self.people = {name: _FIRST_USER + number for number, name in enumerate(people)}
        if people:
            wrapper = multiarch / "libnss_wrapper.so"
            self.environment |= {
                "LD_PRELOAD": str(wrapper),
                "NSS_WRAPPER_PASSWD": str(state / "passwd"),
                "NSS_WRAPPER_GROUP": str(state / "group"),
            }
        self.processes: dict[str, Process] = {}

    # What tests do with it

    def run(self, *command: str, check: bool = True) -> str:
        """The standard output of a command of Slurm."""
        done = subprocess.run(
            command,
            env={**os.environ, **self.environment, "TZ": "UTC"},
            capture_output=True,
            text=True,
        )
        if "DBD_" in done.stderr and not check:
            return ""  # a slurmdbd that ends answers by half, in rows without limits
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return str(done.stdout)

    def submit(
        self,
        account: str,
        *options: str,
        seconds: float = 3600,
        count: int = 1,
        script: str = "",
    ) -> list[int]:
        """Submit jobs that sleep, one CPU and 256 MiB each unless the options say otherwise."""
        command = (
            *("sbatch", "--parsable", f"--account={account}", "--output=/dev/null", "--chdir=/"),
            *("--mem=256", *options, f"--wrap={script or f'sleep {seconds}'}"),
        )
        return [int(self.run(*command)) for _ in range(count)]

    def jobs(self, state: str) -> dict[str, int]:
        """How many jobs of that state every account has."""
        counts: dict[str, int] = {}
        for line in self.run("squeue", "--noheader", f"--states={state}", "--format=%a").split():
            counts[line] = counts.get(line, 0) + 1
        return counts

    def ended(self, jobs: Iterable[int]) -> set[tuple[str, str, str, str]]:
        """Account, identity, start and end of the runs that have ended, as sacct knows them."""
        told = self.run(
            *("sacct", "-aXDPn", "-S", "now-1hour", "-o", "Account,JobIDRaw,Start,End"),
            *("-j", ",".join(map(str, jobs))),
        )
        rows = [line.split("|") for line in told.splitlines()]
        return {
            (account, f"{job}@{start}Z", f"{start}Z", f"{end}Z")
            for account, job, start, end in rows
            if start[0].isdigit() and end[0].isdigit() and start < end
        }

    def settled(self, *, seconds: float = 15) -> None:
        """Wait until the scheduler starts nothing more: two equal looks a good second apart."""
        before, deadline = None, time.monotonic() + seconds
        while time.monotonic() < deadline:
            now = self.run("squeue", "--noheader", "--format=%i %t", "--sort=i")
            if now == before and " CG" not in now:
                return
            before = now
            time.sleep(1.3)

    def add_accounts(self, *names: str, users: Sequence[str] = ()) -> None:
        """Accounts that have no limit, and their users."""
        self.run("sacctmgr", "-i", "add", "account", ",".join(names))
        people = ",".join(users or [self.user])
        self.run("sacctmgr", "-i", "add", "user", people, f"account={','.join(names)}")

    def limits(self) -> dict[str, str]:
        """GrpTRES of every account, as slurmctld and slurmdbd have it."""
        told = self.run("sacctmgr", "-nP", "show", "association", "format=account,user,grptres")
        rows = (line.split("|") for line in told.splitlines())
        return {account: tres for account, user, tres in rows if not user and account != "root"}

    def limits_in_force(self) -> dict[str, str]:
        """CPUs and memory that slurmctld itself lets every account hold."""
        told = self.run("scontrol", "show", "assoc_mgr", "flags=assoc")
        found = {}
        for record in re.split(r"^ClusterName=", told, flags=re.MULTILINE)[1:]:
            account = re.search(r"Account=(\S*) UserName= ", record)
            (tres,) = re.findall(r"^ +GrpTRES=(.*)$", record, re.MULTILINE)
            if account and account[1] != "root":
                found[account[1]] = ",".join(re.findall(r"(?:cpu|mem)=\d+(?=\()", tres))
        return found

    def configure_with(self, text: str) -> None:
        """Replace slurm.conf at once, because a daemon that reads a half-written file ends."""
        file = self.state / "slurm.conf"
        new = file.with_suffix(".new")
        new.write_text(text)
        new.replace(file)

    def described(self) -> str:
        """Nodes, jobs, reservations, limits, ended daemons and the newest lines of slurmctld's log."""
        commands = (
            ("sinfo", "--Node", "--format=%N %T %E"),
            ("squeue", "--format=%i %a %t %r %v %N"),
            ("scontrol", "--oneliner", "show", "reservation"),
            ("sacctmgr", "-nP", "show", "association", "format=account,user,grptres"),
        )
        # A crowded cluster has hundreds of jobs that wait.
        told = ["\n".join(self.run(*each, check=False).splitlines()[:40]) for each in commands]
        ended = [
            f"{name} has ended" for name, each in self.processes.items() if each.poll() is not None
        ]
        log = (self.state / "log" / "slurmctld").read_text(errors="replace").splitlines()
        return "\n".join([*told, *ended, *log[-80:]])

    def clear(self) -> None:
        """No jobs, no reservations and no accounts but root; daemons that were killed run again."""
        if self.processes["slurmdbd"].poll() is not None:
            self.start_accounting()
        if self.processes["slurmctld"].poll() is not None:
            self.start_controller()
        self._cancel()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self.run("squeue", "--noheader"):
            if time.monotonic() > deadline:
                raise AssertionError(f"jobs do not end: {self.described()}")
            time.sleep(0.2)
        for line in self.run("scontrol", "--oneliner", "show", "reservation").splitlines():
            if line.startswith("ReservationName="):
                self.run("scontrol", "delete", line.split()[0])
        # What a killed slurmctld forgot before it was saved still runs for the accounting.
        self.run("sacctmgr", "-i", "show", "runawayjobs", check=False)
        if self.people:
            # Slurm deletes no account that is the default of a user.
            people = ",".join(self.people)
            self.run("sacctmgr", "-i", "delete", "user", f"name={people}", check=False)
            told = self.run("sacctmgr", "-nP", "list", "user", "format=user")
            for user in set(told.splitlines()) - {self.user}:
                self.run("sacctmgr", "-i", "delete", "user", f"name={user}")
        if names := list(self.limits()):
            delete = ("sacctmgr", "-i", "delete", "account", *names)
            deadline = time.monotonic() + _PATIENCE_SECONDS
            # The ends of thousands of jobs take a while to reach slurmdbd.
            while not (gone := self._answers(*delete)) and time.monotonic() < deadline:
                time.sleep(0.5)
            if not gone:
                self.run(*delete)

    # Its life

    def start(self) -> None:
        """Start every daemon and wait until all nodes are idle."""
        for name in ("munge", "db", "run", "spool", "state", "log"):
            (self.state / name).mkdir(parents=True)
        (self.state / "munge").chmod(0o700)
        (self.state / "run").chmod(0o711)
        self._add_people()
        self._configure()
        self._configure_gpus()
        self._start_munge()
        self._start_database()
        self.start_accounting()
        self.run("sacctmgr", "-i", "add", "cluster", CLUSTER)
        self.start_controller()
        for node in self.nodes:
            (self.state / "spool" / node.name).mkdir()
            self._start(
                node.name,
                [
                    *(self.prefix / "usr/sbin/slurmd", "-D", "-N", node.name),
                    *("-d", self.prefix / "usr/sbin/slurmstepd"),
                ],
            )
        self._wait(self.nodes[0].name, self.idle)

    def start_accounting(self) -> None:
        self._start(
            "slurmdbd", [self.prefix / "usr/sbin/slurmdbd", "-D"], MYSQL_UNIX_PORT=self._database
        )
        self._wait("slurmdbd", lambda: self._answers("sacctmgr", "-n", "list", "cluster"))

    def start_controller(self) -> None:
        self._start("slurmctld", [self.prefix / "usr/sbin/slurmctld", "-D"])
        self._wait("slurmctld", lambda: "is UP" in self.run("scontrol", "ping", check=False))

    def kill_controller(self) -> None:
        """What a machine that loses its power does to slurmctld."""
        self.processes["slurmctld"].send_signal(signal.SIGKILL)
        self.processes["slurmctld"].wait()

    def answers(self) -> bool:
        """Return true if both daemons answer."""
        commands = (("scontrol", "ping"), ("sacctmgr", "-n", "list", "cluster"))
        return all(self._answers(*command) for command in commands)

    def idle(self) -> bool:
        told = self.run("sinfo", "-h", "-N", "-o", "%N %T", check=False).splitlines()
        return {line.split()[0] for line in told if line.endswith("idle")} == {
            node.name for node in self.nodes
        }

    def stop(self) -> None:
        if "slurmctld" in self.processes:
            self._cancel()
            deadline = time.monotonic() + _PATIENCE_SECONDS / 6
            while self.people and self.run("squeue", "-h", check=False):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.2)
        for process in reversed(self.processes.values()):
            stop(process, patience_seconds=5)

    def _cancel(self) -> None:
        for state in ("PENDING", "RUNNING", "SUSPENDED"):
            self.run("scancel", f"--state={state}", check=False)

    def _start(self, name: str, command: Sequence[str | Path], **variables: str | Path) -> None:
        with (self.state / "log" / f"{name}.out").open("ab") as log:
            self.processes[name] = start(
                command,
                env={
                    **os.environ,
                    **self.environment,
                    **{key: str(value) for key, value in variables.items()},
                },
                cwd=self.state,
                output=log,
            )

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not ready():
            ended = self.processes[name].poll()
            if ended is not None or time.monotonic() > deadline:
                log = (self.state / "log" / f"{name}.out").read_text(errors="replace")
                raise AssertionError(f"{name} is not ready (ended with {ended}): {log[-2000:]}")
            time.sleep(0.05)

    def _answers(self, *command: str) -> bool:
        done = subprocess.run(
            command, env={**os.environ, **self.environment}, capture_output=True, check=False
        )
        return done.returncode == 0

    @property
    def _socket(self) -> Path:
        return self.state / "run" / "munge.sock"

    @property
    def _database(self) -> Path:
        return self.state / "run" / "db.sock"

    def _start_munge(self) -> None:
        folder = self.state / "munge"
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o400)
        self._start(
            "munged",
            [
                *(self.prefix / "usr/sbin/munged", "--foreground", "--force"),
                *(f"--key-file={folder / 'key'}", f"--socket={self._socket}"),
                *(f"--pid-file={folder / 'pid'}", f"--seed-file={folder / 'seed'}"),
                f"--log-file={folder / 'log'}",
            ],
        )
        self._wait("munged", self._socket.exists)

    def _start_database(self) -> None:
        base = self.prefix / "usr"
        data = self.state / "db"
        self.run(
            *(str(base / "bin/mariadb-install-db"), "--no-defaults", f"--basedir={base}"),
            *(f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"),
            f"--user={self.user}",
        )
        self._start(
            "mariadbd",
            [
                *(base / "sbin/mariadbd", "--no-defaults", f"--basedir={base}"),
                *(f"--lc-messages-dir={base / 'share/mysql'}", f"--datadir={data}"),
                *(f"--plugin-dir={base / 'lib/mysql/plugin'}", f"--socket={self._database}"),
                *("--skip-networking", f"--pid-file={self.state / 'run/db.pid'}"),
                *(f"--user={self.user}", "--innodb-flush-log-at-trx-commit=2"),
                "--innodb-buffer-pool-size=128M",
            ],
        )
        client = (str(base / "bin/mariadb"), "--no-defaults", "--user=root", "--execute=SELECT 1")
        self._wait("mariadbd", lambda: self._answers(*client, f"--socket={self._database}"))

    def _counted(self) -> list[str]:
        """Return the TRES that accounting counts beside those that it always does."""
        licences = [item.partition(":")[0] for item in self.licences.split(",") if item]
        types = [f"gres/gpu:{kind}" for kind in self._types()]
        return ["gres/gpu", *types, *(f"license/{name}" for name in licences)]

    def _add_people(self) -> None:
        """Write the users that Slurm finds, this machine's included."""
        rows = [f"{name}:x:{number}:{_GROUP}::/:/bin/sh" for name, number in self.people.items()]
        users = Path("/etc/passwd").read_text() + "\n".join(rows) + "\n"
        (self.state / "passwd").write_text(users)
        (self.state / "group").write_text(f"{Path('/etc/group').read_text()}people:x:{_GROUP}:\n")

    def _configure(self) -> None:
        host = socket.gethostname()
        common = f"""\
AuthType=auth/munge
AuthInfo=socket={self._socket}
PluginDir={self.plugins}
SlurmUser={self.user}
"""
        (self.state / "slurmdbd.conf").write_text(
            f"""{common}DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={self.ports["dbd"]}
LogFile={self.state}/log/slurmdbd
PidFile={self.state}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
CommunicationParameters=NoInAddrAny
"""
        )
        (self.state / "slurmdbd.conf").chmod(0o600)
        leaves = [f"SwitchName={name} Nodes={','.join(of)}\n" for name, of in self.switches.items()]
        root = f"SwitchName=root Switches={','.join(self.switches)}\n"
        (self.state / "topology.conf").write_text("".join([*leaves, root]) if leaves else "")
        # sacctmgr takes the munge socket for slurmdbd from AccountingStoragePass alone.
        (self.state / "slurm.conf").write_text(
            f"""{common}ClusterName={CLUSTER}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={self.ports["ctld"]}
CryptoType=crypto/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmdUser={self.user}
SlurmctldPidFile={self.state}/run/slurmctld.pid
SlurmdPidFile={self.state}/run/slurmd.%n.pid
SlurmctldLogFile={self.state}/log/slurmctld
SlurmdLogFile={self.state}/log/slurmd.%n
StateSaveLocation={self.state}/state
SlurmdSpoolDir={self.state}/spool/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,bf_resolution=1
PriorityType=priority/multifactor
PriorityWeightFairshare=10000
PriorityDecayHalfLife=7-0
PriorityCalcPeriod=1
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={self.ports["dbd"]}
AccountingStoragePass={self._socket}
AccountingStorageEnforce=limits,qos,safe
AccountingStorageTRES={",".join(self._counted())}
GresTypes=gpu
MinJobAge=2
MessageTimeout=3
TopologyPlugin=topology/{"tree" if self.switches else "none"}
KillWait=1
MaxArraySize=10001
MaxJobCount=20000
"""
            + (f"Licenses={self.licences}\n" if self.licences else "")
            + "".join(map(self._node, self.nodes))
            + "".join(
                f"PartitionName={name} Nodes={','.join(names)} MaxTime=600 State=UP"
                f" Default={'YES' if number == 0 else 'NO'}\n"
                for number, (name, names) in enumerate(self._partitions().items())
            )
        )

    def _node(self, node: Node) -> str:
        cores = (
            f" Sockets=1 CoresPerSocket={node.cpus // self.threads} ThreadsPerCore={self.threads}"
        )
        extra = cores if self.threads > 1 else ""
        extra += f" Feature={','.join(node.features)}" if node.features else ""
        if node.gpus:
            extra += " Gres=" + ",".join(f"gpu:{kind}:{count}" for kind, count in node.gpus)
        return (
            f"NodeName={node.name} NodeAddr=127.0.0.1 NodeHostname={socket.gethostname()}"
            f" Port={self.ports[node.name]} CPUs={node.cpus} RealMemory={node.memory}{extra}"
            " State=UNKNOWN\n"
        )

    def _types(self) -> list[str]:
        return sorted({kind for node in self.nodes for kind, _ in node.gpus})

    def _configure_gpus(self) -> None:
        """Write the devices of each node; slurmd warns that these are plain files, and counts them."""
        lines = []
        for node in self.nodes:
            for kind, count in node.gpus:
                for number in range(count):
                    (self.state / f"{node.name}-{kind}-{number}").touch()
                files = self.state / f"{node.name}-{kind}-[0-{count - 1}]"
                lines.append(f"NodeName={node.name} Name=gpu Type={kind} File={files}\n")
        if lines:
            (self.state / "gres.conf").write_text("".join(lines))

    def _partitions(self) -> dict[str, list[str]]:
        partitions: dict[str, list[str]] = {}
        for node in self.nodes:
            partitions.setdefault(node.partition, []).append(node.name)
        return partitions


def _free(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def running_cluster(prefix: Path, nodes: Sequence[Node], **options: Any) -> Iterator[Cluster]:
    """Run a cluster, with all of its nodes idle. Its sockets need a short path."""
    state = Path(tempfile.mkdtemp(prefix="slurm-"))
    state.chmod(0o711)
    running = Cluster(prefix, state, nodes, **options)
    try:
        running.start()
        yield running
    finally:
        running.stop()
        shutil.rmtree(state, ignore_errors=True)
