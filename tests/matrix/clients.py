"""The clients: how each is started, which version it is, and what it can do."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version as installed
from pathlib import Path

from tests.kafka import jvm

MEMBERS = Path(__file__).parent / "members"
BUILD_TIMEOUT_S = 600
_JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client of Kafka: one row of the matrix."""

    name: str
    protocol: str
    marker: str
    command: Callable[[], list[str]]
    version: Callable[[], str]
    needs: tuple[str, ...] = ()
    """The programs that must be installed for this client."""
    assignors: Mapping[str, str] = field(default_factory=lambda: {"range": "range"})
    """Assignment strategies of the classic protocol, and what the client calls them."""
    never_static: str = ""
    """Why it has no group.instance.id; "" if it has."""
    says_no_farewell: str = ""
    """Why the place of a static member that is closed is taken by no other before its session has ended."""
    blind_to_new_topics: str = ""
    """Why its pattern finds no topics that are created later."""
    finds_one_at_a_time: str = ""
    """Why it must not find a new topic while it looks for its coordinator."""
    stays_when_idle: str = ""
    """Why it does not leave its group when its user has not polled for max.poll.interval.ms."""

    def unexcused(self) -> Client:
        """Return the same client without its excuses, so that everything is asked of it."""
        return replace(
            self,
            never_static="",
            says_no_farewell="",
            blind_to_new_topics="",
            finds_one_at_a_time="",
            stays_when_idle="",
        )

    @property
    def title(self) -> str:
        return f"{self.name}, {self.protocol}"

    @property
    def missing(self) -> str:
        """Why it cannot be run here; "" if it can."""
        absent = [program for program in self.needs if shutil.which(program) is None]
        return f"{' and '.join(absent)} not found" if absent else ""


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-W", "ignore", "-m", module]


def _package(name: str) -> Callable[[], str]:
    return lambda: installed(name)


@cache
def _java() -> list[str]:
    return jvm.command(jvm.build(), "groupd.Member")


def _java_version() -> str:
    jar = next((jvm.build() / "libs").glob("kafka-clients-*.jar"))
    return jar.stem.removeprefix("kafka-clients-")


def _built(source: str, commands: list[list[str]]) -> Path:
    """A copy of a client's folder in the cache, with `commands` run in it once."""
    files = sorted(path for path in (MEMBERS / source).iterdir() if path.is_file())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    directory = jvm.CACHE / f"{source}-{digest}"
    if not (directory / "complete").exists():
        shutil.copytree(MEMBERS / source, directory, dirs_exist_ok=True)
        for command in commands:
            done = subprocess.run(
                command, cwd=directory, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
            )
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
        (directory / "complete").touch()
    return directory


@cache
def _kafkajs() -> list[str]:
    directory = _built("kafkajs", [["npm", "install", "--no-audit", "--no-fund"]])
    return ["node", str(directory / "member.js")]


def _kafkajs_version() -> str:
    return (MEMBERS / "kafkajs" / "package.json").read_text().split('"kafkajs": "')[1].split('"')[0]


@cache
def _franz() -> list[str]:
    return [str(_built("franz", [["go", "build", "-o", "member", "."]]) / "member")]


@cache
def _sarama() -> list[str]:
    return [str(_built("sarama", [["go", "build", "-o", "member", "."]]) / "member")]


def _go_version(source: str, module: str) -> str:
    return (MEMBERS / source / "go.mod").read_text().split(f"{module} v")[1].split()[0]


# What a footnote of the table says. Each was checked with the same client on Apache Kafka 4.3.1.
_LIBRDKAFKA_STAYS = (
    "Nobody takes the sleeper's partitions: librdkafka's KIP-848 member goes on heartbeating and leaves when"
    " it is polled again. The same on Apache Kafka. In about one failover of ten it then fetches nothing"
    " more: librdkafka does not repeat an OffsetFetch that is answered with NOT_COORDINATOR."
)
_FRANZ_STAYS = (
    "Nobody takes the sleeper's partitions: franz-go has no max.poll.interval.ms and goes on heartbeating."
    " The same on Apache Kafka."
)
_FRANZ_HAS_NO_EPOCH = (
    "Comes back when the old session has ended: franz-go's KIP-848 member closes without telling that it will"
    " be back (epoch -2), so its place is taken until then. The same on Apache Kafka."
)
_KAFKA_PYTHON_FALLS_SILENT = (
    "Without a topic that is created later: kafka-python's leader then joins again after every rebalance, and"
    " falls silent. The same on Apache Kafka."
)
_AIOKAFKA_ASSERTS = (
    "The new topic is assigned before the leader is killed: aiokafka ends with an AssertionError of its own"
    " if it finds a topic while it looks for its coordinator. The same on Apache Kafka."
)
_KAFKAJS_LOOKS_ONCE = (
    "Without a topic that is created later: kafkajs resolves a pattern once, when it subscribes. The same on"
    " Apache Kafka."
)
_BOTH = {"range": "range", "cooperative-sticky": "cooperative-sticky"}

CLIENTS = (
    *(
        Client(
            name="confluent-kafka",
            protocol=protocol,
            marker="clients",
            command=_python("bench.clients.confluent"),
            version=_package("confluent-kafka"),
            assignors=_BOTH,
            stays_when_idle=_LIBRDKAFKA_STAYS if protocol == "consumer" else "",
        )
        for protocol in ("classic", "consumer")
    ),
    Client(
        name="kafka-python",
        protocol="classic",
        marker="clients",
        command=_python("tests.matrix.members.kafka_python"),
        version=_package("kafka-python"),
        assignors=_BOTH,
        blind_to_new_topics=_KAFKA_PYTHON_FALLS_SILENT,
    ),
    Client(
        name="aiokafka",
        protocol="classic",
        marker="clients",
        command=_python("tests.matrix.members.aio"),
        version=_package("aiokafka"),
        finds_one_at_a_time=_AIOKAFKA_ASSERTS,
    ),
    *(
        Client(
            name="Java",
            protocol=protocol,
            marker="kafka",
            command=_java,
            version=_java_version,
            needs=("java", "mvn"),
            assignors=_JAVA_ASSIGNORS,
        )
        for protocol in ("classic", "consumer")
    ),
    Client(
        name="kafkajs",
        protocol="classic",
        marker="clients_extra",
        command=_kafkajs,
        version=_kafkajs_version,
        needs=("node", "npm"),
        never_static="kafkajs knows no instance ids.",
        blind_to_new_topics=_KAFKAJS_LOOKS_ONCE,
    ),
    *(
        Client(
            name="franz-go",
            protocol=protocol,
            marker="clients_extra",
            command=_franz,
            version=lambda: _go_version("franz", "franz-go"),
            needs=("go",),
            assignors=_BOTH,
            says_no_farewell=_FRANZ_HAS_NO_EPOCH if protocol == "consumer" else "",
            stays_when_idle=_FRANZ_STAYS,
        )
        for protocol in ("classic", "consumer")
    ),
)
SARAMA = Client(
    name="sarama",
    protocol="classic",
    marker="clients_extra",
    command=_sarama,
    version=lambda: _go_version("sarama", "sarama"),
    needs=("go",),
)
"""Lives no stories of the matrix: it tells its user nothing of a commit that is refused."""
