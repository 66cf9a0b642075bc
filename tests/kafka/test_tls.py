"""Kafka's own client and tools over TLS, at a tier of its own: both protocols, and an authority that they do
not know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.authority import Authority
from tests.kafka import jvm
from tests.kafka.logins import java_login, write_properties
from tests.kafka.members import JavaMember, partitions_of, shared_out
from tests.kafka.tools import CONSUMER, GROUPS, PRODUCER, Run, Tools
from tests.tier.guarded import MECHANISMS, PASSWORD, Guarded, with_users

pytestmark = [pytest.mark.kafka, pytest.mark.clients, pytest.mark.timeout(400)]

TOPIC = "orders"
DISTRUSTED = "SSL handshake failed"
"""What Kafka's client says of a server whose certificate it does not believe."""
WHY = "PKIX path"


@pytest.fixture(scope="module")
def guarded(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A tier whose clients log in over TLS."""
    with with_users(tmp_path_factory.mktemp("tls"), "--nodes=2", "--replicas=1") as running:
        yield running


@pytest.fixture(scope="module")
def tools(guarded: Guarded) -> Iterator[Tools]:
    with Tools(jvm.build_tools(), guarded.tier.bootstrap) as running:
        yield running


def login(authority: Authority, mechanism: str = MECHANISMS[0]) -> dict[str, str]:
    return java_login(mechanism, "alice", PASSWORD, authority)


@pytest.mark.parametrize(("protocol", "mechanism"), [("classic", MECHANISMS[0]), ("consumer", MECHANISMS[1])])
def test_java_consumers_share_reads_and_commits(
    guarded: Guarded, built: Path, tools: Tools, tmp_path: Path, protocol: str, mechanism: str
) -> None:
    settings = {"group_protocol": protocol, **login(guarded.authority, mechanism)}
    where = built, guarded.tier.bootstrap, TOPIC, f"java-{protocol}"
    with JavaMember(*where, **settings) as first, JavaMember(*where, **settings) as second:
        shared_out([first, second], partitions_of(TOPIC))
        before = len(first.seen) + len(second.seen)
        said = produced(tools, guarded.authority, tmp_path, 12)
        assert said.exit_code == 0, said.said
        first.until(lambda: len(first.seen) + len(second.seen) == before + 12, "all records are read")
        for member in (first, second):
            if member.seen:
                assert member.ask("commit", "committed")["offsets"]
            member.close()


def produced(tools: Tools, authority: Authority, directory: Path, count: int) -> Run:
    """Have the console producer send so many records."""
    file = write_properties(directory / "producer", login(authority))
    lines = "".join(f"record {number}\n" for number in range(count))
    return tools.attempt(PRODUCER, "--command-config", str(file), "--topic", TOPIC, lines_in=lines)


def test_kafkas_tools_read_and_describe(guarded: Guarded, tools: Tools, tmp_path: Path) -> None:
    file = write_properties(tmp_path / "client", login(guarded.authority))
    as_alice, group = ("--command-config", str(file)), ("--group", "console")
    assert produced(tools, guarded.authority, tmp_path, 3).exit_code == 0
    bounds = ("--from-beginning", "--max-messages", "3", "--timeout-ms", "30000")
    read = tools.run(CONSUMER, *as_alice, *group, "--topic", TOPIC, *bounds)
    assert len(read.splitlines()) == 3
    rows = tools.table(GROUPS, *as_alice, *group, "--describe", "--offsets")
    assert sum(int(row["CURRENT-OFFSET"]) for row in rows if row["CURRENT-OFFSET"] != "-") == 3


def test_a_tool_that_does_not_know_the_authority_says_so(
    guarded: Guarded, tools: Tools, tmp_path: Path
) -> None:
    file = write_properties(tmp_path / "strange", login(Authority(tmp_path / "authority")))
    refused = tools.attempt(GROUPS, "--command-config", str(file), "--list").said
    assert DISTRUSTED in refused
    assert WHY in refused


def test_a_java_consumer_that_does_not_know_the_authority_ends(
    guarded: Guarded, built: Path, tmp_path: Path
) -> None:
    settings = login(Authority(tmp_path / "authority"))
    with JavaMember(built, guarded.tier.bootstrap, TOPIC, "strangers", **settings) as member:
        member.until(lambda: member.told("failed"), "it gives up")
        assert DISTRUSTED in member.story()
