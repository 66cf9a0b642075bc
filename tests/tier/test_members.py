"""Replicas that are lost, moved, replaced, added and removed under load: nothing acknowledged is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ground.throwaway import Tier
from cluster.ports import free_ports
from tests.polling import DEADLINE_S, until
from tests.tier import committer
from tests.tier.conftest import kill

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.clients, pytest.mark.timeout(150)]

NODES = 4
GROUPS = 4
LOST_TIMEOUT_MS = 8_000
HEAL_S = 60.0
TOPIC = "orders"


@pytest.fixture(scope="module")
def roomy() -> Iterator[Tier]:
    """A tier of four nodes, with one partition of three replicas."""
    flags = ["--nodes", str(NODES), "--partitions", "1"]
    flags += ["--set", "group.initial.rebalance.delay.ms=0"]
    flags += ["--set", f"replica.lost.timeout.ms={LOST_TIMEOUT_MS}"]
    with Tier(*flags, port=free_ports(NODES), nodes=NODES) as running:
        running.run("topics", "create", TOPIC)
        yield running


def row_of(tier: Tier, group: str) -> list[dict[str, Any]]:
    """The group's replicas; [] until all of it is well."""
    status = tier.status()
    found = status["controller"] if group == "controller" else status["partitions"][int(group)]
    replicas: list[dict[str, Any]] = found["replicas"]
    whole = found["leader_node"] is not None and not any(
        replica["problem"] or replica["note"] for replica in replicas
    )
    return replicas if whole else []


def whole(tier: Tier, group: str = "0", count: int = 3) -> list[dict[str, Any]]:
    """The group's replicas, once it has `count` and all of them count."""

    def settled() -> list[dict[str, Any]] | None:
        replicas = row_of(tier, group)
        return replicas if len(replicas) == count else None

    replicas: list[dict[str, Any]] = until(settled, f"{group} has {count} members", HEAL_S)
    return replicas


def leader_of(replicas: list[dict[str, Any]]) -> dict[str, Any]:
    return next(replica for replica in replicas if replica["serving"])


def directory(tier: Tier, replica: dict[str, Any]) -> Path:
    return tier.data_dir / f"node-{replica['node_id']}" / f"partition-0-{replica['replica']}"


def lose_directory(tier: Tier, replica: dict[str, Any], *, for_good: bool = False) -> None:
    """Frozen while it goes, so that the process does not write into what is being removed; then killed.
    `for_good`: where it was no directory can be made."""
    os.kill(replica["pid"], signal.SIGSTOP)
    shutil.rmtree(directory(tier, replica))
    if for_good:
        directory(tier, replica).touch()
    kill(replica["pid"])


def changed(tier: Tier, *arguments: str) -> list[tuple[int, int]]:
    """Run `groupd replicas`, and return the (replica, node) pairs that the partition has then."""
    done = json.loads(tier.run("replicas", *arguments, "--json"))
    assert done["done"]
    ((_, replicas),) = done["groups"].items()
    return [(replica["replica"], replica["node_id"]) for replica in replicas]


def under_load(tier: Tier, name: str, change: Callable[[], None]) -> None:
    """Members commit without pause while `change` is made and some time after it; then their groups are as
    they were promised to be."""
    bootstraps = [("127.0.0.1", tier.port + node) for node in range(NODES)]
    committer.under_load(bootstraps, [f"{name}-{number}" for number in range(GROUPS)], TOPIC, change)


def test_a_replica_without_its_directory_comes_back_as_a_new_member(roomy: Tier) -> None:
    """A follower and the leader lose theirs; nobody does anything by hand."""

    def lose() -> None:
        for serving in (False, True):
            before = whole(roomy)
            lost = next(replica for replica in before if replica["serving"] is serving)
            lose_directory(roomy, lost)

            def is_another(lost: dict[str, Any] = lost) -> bool:
                now = {replica["replica"]: replica for replica in row_of(roomy, "0")}
                return bool(now) and now[lost["replica"]]["member_id"] != lost["member_id"]

            until(is_another, "the replica is a member under another name", HEAL_S)

    under_load(roomy, "lost", lose)


def test_replicas_move_one_after_the_other_the_leader_too(roomy: Tier) -> None:
    """First a follower goes to the free node, then the leader to where that one was."""

    def move() -> None:
        before = whole(roomy)
        leader = leader_of(before)
        follower = next(replica for replica in before if replica is not leader)
        (free,) = set(range(1, NODES + 1)) - {replica["node_id"] for replica in before}
        changed(roomy, "move", "0", str(follower["replica"]), "--to", str(free))
        now = changed(roomy, "move", "0", str(leader["replica"]), "--to", str(follower["node_id"]))
        assert {node for _, node in now} == {replica["node_id"] for replica in before} - {
            leader["node_id"]
        } | {free}
        assert min(number for number, _ in now if number not in {r["replica"] for r in before}) > 2
        for gone in (leader, follower):
            assert not directory(roomy, gone).exists()

    under_load(roomy, "moved", move)


def test_a_group_shrinks_to_its_leader_and_grows_again(roomy: Tier) -> None:
    def resize() -> None:
        leader = leader_of(whole(roomy))
        assert changed(roomy, "resize", "0", "1") == [(leader["replica"], leader["node_id"])]
        grown = changed(roomy, "resize", "0", "3")
        assert grown[0] == (leader["replica"], leader["node_id"])
        assert len({node for _, node in grown}) == 3

    under_load(roomy, "resized", resize)


def test_the_controller_moves_shrinks_and_grows_like_any_group(roomy: Tier) -> None:
    """Brokers and partitions find controllers that were not there when they were made."""
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{roomy.port}"})
    names = [f"after-change-{number}" for number in range(4)]

    def change() -> None:
        before = whole(roomy, "controller")
        leader = leader_of(before)
        (free,) = set(range(1, NODES + 1)) - {replica["node_id"] for replica in before}
        changes = (
            ("replace", "controller", str(leader["replica"])),
            ("move", "controller", str(leader["replica"]), "--to", str(free)),
            ("resize", "controller", "1"),
            ("resize", "controller", "3"),
        )
        for name, arguments in zip(names, changes, strict=True):
            changed(roomy, *arguments)
            admin.create_topics([NewTopic(name, 2, 1)])[name].result(DEADLINE_S)

    under_load(roomy, "controlled", change)
    whole(roomy, "controller")
    assert set(names) <= set(admin.list_topics(timeout=10).topics)


def test_a_replica_that_cannot_start_gets_a_successor_on_another_node(roomy: Tier) -> None:
    """The replica's disk is broken for good; after the time-out the free node takes its place."""

    def break_disk() -> None:
        before = whole(roomy)
        lost = next(replica for replica in before if not replica["serving"])
        (free,) = set(range(1, NODES + 1)) - {replica["node_id"] for replica in before}
        lose_directory(roomy, lost, for_good=True)

        def is_replaced() -> bool:
            return free in {replica["node_id"] for replica in row_of(roomy, "0")}

        until(is_replaced, "the free node has a replica", HEAL_S + LOST_TIMEOUT_MS / 1000)
        assert lost["replica"] not in {replica["replica"] for replica in whole(roomy)}
        directory(roomy, lost).unlink(missing_ok=True)

    under_load(roomy, "broken", break_disk)


def test_what_cannot_be_is_refused_in_words(roomy: Tier) -> None:
    replicas = whole(roomy)
    used = replicas[0]
    wrong = [
        (["move", "0", "99", "--to", "1"], "partition-0 has no replica 99: it has "),
        (["move", "0", str(used["replica"]), "--to", str(used["node_id"])], "already"),
        (["move", "0", str(used["replica"]), "--to", "77"], "there is no node 77; the tier has 1, 2, 3, 4"),
        (["replace", "5", "0"], "5: there are the partitions 0 to 0, and controller"),
        (["resize", "0", "16"], "16 replicas: a whole number from 1 to 15 is allowed"),
        (["resize", "3"], "resize wants a group and a number of replicas"),
    ]
    for arguments, said in wrong:
        with pytest.raises(RuntimeError, match=said):
            roomy.run("replicas", *arguments)
    assert {r["member_id"] for r in whole(roomy)} == {r["member_id"] for r in replicas}


def test_after_a_stop_the_replicas_are_where_they_were_and_a_damaged_one_is_rebuilt(roomy: Tier) -> None:
    """A bit of a follower's journal was turned meanwhile: the start says so and goes on."""
    under_load(roomy, "stopped", lambda: None)
    before = whole(roomy)
    follower = next(replica for replica in before if not replica["serving"])
    roomy.run("down")
    journal = min((directory(roomy, follower) / "journal").glob("*.journal"))
    content = bytearray(journal.read_bytes())
    content[len(content) // 2] ^= 0x10
    journal.write_bytes(content)
    shown = json.loads(roomy.run("up", "--detach", "--port", str(roomy.port), "--json"))
    (warning,) = shown["warnings"]
    assert "JournalDamaged" in warning
    assert "its peers build it anew" in warning
    after = whole(roomy)
    assert [(r["replica"], r["node_id"]) for r in after] == [(r["replica"], r["node_id"]) for r in before]
    rebuilt = next(replica for replica in after if replica["replica"] == follower["replica"])
    assert rebuilt["member_id"] != follower["member_id"]
    assert list(directory(roomy, follower).parent.glob("*.damaged-*"))
    assert roomy.status()["healthy"]
    assert "stopped-0" in roomy.run("groups", "list")
