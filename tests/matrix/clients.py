"""The clients: how each is started, in which versions, and what it can do."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tests.matrix.builds import go_program, java_with, node_programs, python_with

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client of Kafka: one row of the matrix."""

    name: str
    version: str
    protocol: str
    marker: str
    command: Callable[[], list[str]]
    writer: Callable[[], list[str]]
    """The command of the client's producer: `tests.matrix.writers`."""
    needs: tuple[str, ...] = ()
    """The programs that must be installed for this client."""
    assignors: Mapping[str, str] = field(default_factory=lambda: {"range": "range"})
    """Assignment strategies of the classic protocol, and what the client calls them."""
    codecs: tuple[str, ...] = CODECS
    """The compressions that it writes and reads."""
    lacks_codecs: str = ""
    """Why these are not all there are; "" if they are."""
    never_static: str = ""
    """Why it has no group.instance.id; "" if it has."""
    no_patterns: str = ""
    """Why it cannot subscribe to a pattern; "" if it can."""
    says_no_farewell: str = ""
    """Why the place of a static member that is closed is taken by no other before its session has ended."""
    blind_to_new_topics: str = ""
    """Why its pattern finds no topics that are created later."""
    finds_one_at_a_time: str = ""
    """Why it must not find a new topic while it looks for its coordinator."""
    stuck_when_refused: str = ""
    """Why its producer writes nothing more after a record that was refused."""
    stays_when_idle: str = ""
    """Why it does not leave its group when its user has not polled for max.poll.interval.ms."""

    def unexcused(self) -> Client:
        """Return the same client without its excuses, so that everything is asked of it."""
        return replace(
            self,
            never_static="",
            no_patterns="",
            says_no_farewell="",
            blind_to_new_topics="",
            finds_one_at_a_time="",
            stuck_when_refused="",
            stays_when_idle="",
        )

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}, {self.protocol}"

    @property
    def missing(self) -> str:
        """Why it cannot be run here; "" if it can."""
        absent = [program for program in self.needs if shutil.which(program) is None]
        return f"{' and '.join(absent)} not found" if absent else ""


def _python(module: str, *requirements: str) -> Callable[[], list[str]]:
    return lambda: [python_with(*requirements), "-W", "ignore", "-m", module]


def _go(source: str, module_file: str, *arguments: str) -> Callable[[], list[str]]:
    return lambda: [go_program(source, module_file), *arguments]


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
_KAFKA_PYTHON_IS_STUCK = (
    "With a new producer after each refusal: kafka-python 3's idempotent one then answers every record with"
    " the error of the refused one. The same on Apache Kafka."
)
_AIOKAFKA_ASSERTS = (
    "The new topic is assigned before the leader is killed: aiokafka ends with an AssertionError of its own"
    " if it finds a topic while it looks for its coordinator. The same on Apache Kafka."
)
_KAFKAJS_LOOKS_ONCE = (
    "Without a topic that is created later: kafkajs resolves a pattern once, when it subscribes. The same on"
    " Apache Kafka."
)
_KAFKAJS_CODECS = (
    "Without lz4 and zstd: kafkajs itself knows gzip, kafkajs-snappy brings snappy; what brings the others is"
    " compiled from C."
)
_SARAMA_STAYS = (
    "Nobody takes the sleeper's partitions: sarama has no max.poll.interval.ms and goes on heartbeating."
    " The same on Apache Kafka."
)
_JAVA_39_PATTERNS = (
    "Kafka's Java client sends patterns of the consumer protocol to the server since 4.0 alone."
)
_BOTH = {"range": "range", "cooperative-sticky": "cooperative-sticky"}


def _confluent(version: str, protocol: str) -> Client:
    requirement = f"confluent-kafka=={version}"
    return Client(
        name="confluent-kafka",
        version=version,
        protocol=protocol,
        marker="clients",
        command=_python("bench.clients.confluent", requirement),
        writer=_python("tests.matrix.writers.confluent", requirement),
        assignors=_BOTH,
        stays_when_idle=_LIBRDKAFKA_STAYS if protocol == "consumer" else "",
    )


def _kafka_python(version: str) -> Client:
    packages = (f"kafka-python=={version}", "python-snappy", "lz4", "zstandard")
    of_old = version.startswith("2.")
    return Client(
        name="kafka-python",
        version=version,
        protocol="classic",
        marker="clients",
        command=_python("bench.clients.kafka_python", *packages),
        writer=_python("tests.matrix.writers.kafka_python", *packages),
        assignors={"range": "range"} if of_old else _BOTH,
        never_static="kafka-python knows no instance ids before 3.0." if of_old else "",
        blind_to_new_topics=_KAFKA_PYTHON_FALLS_SILENT,
        stuck_when_refused="" if of_old else _KAFKA_PYTHON_IS_STUCK,
    )


def _aiokafka(version: str) -> Client:
    package = f"aiokafka[lz4,snappy,zstd]=={version}"
    return Client(
        name="aiokafka",
        version=version,
        protocol="classic",
        marker="clients",
        command=_python("bench.clients.aio", package),
        writer=_python("tests.matrix.writers.aio", package),
        finds_one_at_a_time=_AIOKAFKA_ASSERTS,
    )


def _java(version: str, protocol: str) -> Client:
    return Client(
        name="Java",
        version=version,
        protocol=protocol,
        marker="kafka",
        command=lambda: java_with(version, "Member"),
        writer=lambda: java_with(version, "Writer"),
        needs=("java", "mvn"),
        assignors=_JAVA_ASSIGNORS,
        no_patterns=_JAVA_39_PATTERNS if (version, protocol) == ("3.9.1", "consumer") else "",
    )


def _franz(version: str, protocol: str, module_file: str) -> Client:
    return Client(
        name="franz-go",
        version=version,
        protocol=protocol,
        marker="clients_extra",
        command=_go("franz", module_file),
        writer=_go("franz", module_file, "write"),
        needs=("go",),
        assignors=_BOTH,
        says_no_farewell=_FRANZ_HAS_NO_EPOCH if protocol == "consumer" else "",
        stays_when_idle=_FRANZ_STAYS,
    )


def _sarama(version: str, module_file: str) -> Client:
    return Client(
        name="sarama",
        version=version,
        protocol="classic",
        marker="clients_extra",
        command=_go("sarama", module_file),
        writer=_go("sarama", module_file, "write"),
        needs=("go",),
        no_patterns="sarama subscribes to names of topics alone.",
        stays_when_idle=_SARAMA_STAYS,
    )


CLIENTS = (
    *(_confluent(version, "classic") for version in ("2.0.2", "2.2.0", "2.6.1", "2.16.1")),
    _confluent("2.16.1", "consumer"),
    *(_kafka_python(version) for version in ("2.0.2", "2.2.21", "3.0.12")),
    *(_aiokafka(version) for version in ("0.10.0", "0.14.0")),
    *(_java(version, "classic") for version in ("2.8.2", "3.9.1", "4.4.0")),
    *(_java(version, "consumer") for version in ("3.9.1", "4.4.0")),
    Client(
        name="kafkajs",
        version="2.2.4",
        protocol="classic",
        marker="clients_extra",
        command=lambda: ["node", str(node_programs() / "member.js")],
        writer=lambda: ["node", str(node_programs() / "write.js")],
        needs=("node", "npm"),
        codecs=("none", "gzip", "snappy"),
        lacks_codecs=_KAFKAJS_CODECS,
        never_static="kafkajs knows no instance ids.",
        blind_to_new_topics=_KAFKAJS_LOOKS_ONCE,
    ),
    _franz("1.19.5", "classic", "v1.19.5.mod"),
    _franz("1.22.3", "classic", "go.mod"),
    _franz("1.22.3", "consumer", "go.mod"),
    _sarama("1.43.3", "v1.43.3.mod"),
    _sarama("1.61.1", "go.mod"),
)
"""Old versions beside new ones: what a team that upgrades in steps runs at one time."""
