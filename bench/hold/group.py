"""One group of real clients, and what happens to it in `groupd bench hold --clients`.

Two members are settled. A scene comes at a random moment, at least one interval after the last:

* join: from a third member's subscribe() until each partition has its owner;
* commit: a synchronous commit of a settled member;
* close: the third member's close(); leave: from its beginning until the others have all partitions;
* subscription: from subscribe() to one topic more until the member has all of it;
* slow revocation: a join while a member needs SLOW_REVOCATION_S to give up partitions.

Moments are the clients' own (of their user's thread), on the machine's clock.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.clients.member import Broken, Member, until

INTERVAL_S: Final = {"consumer": 5.0, "classic": 3.0}
"""The default seconds between two heartbeats of the clients, by protocol."""
SCENES: Final = ("join", "leave", "close", "commit", "subscription", "slow revocation")
REST_INTERVALS: Final = 3
"""How many intervals a group rests after it has formed: a classic client is held once two heartbeats have
told their distance."""
PARTITIONS: Final = 12
SLOW_REVOCATION_S: Final = 6.0
TOPICS_TIMEOUT_S: Final = 60.0
SEED: Final = 848
_MOVES: Final = {"assigned", "revoked", "lost"}


class Group:
    """One group of one client, driven by a thread of its own. Raises Broken with the members' words."""

    def __init__(self, client: str, protocol: str, command: Sequence[str], bootstrap: str) -> None:
        self.client = client
        self.protocol = protocol
        self.members: list[Member] = []
        self.times: dict[str, list[float]] = {scene: [] for scene in SCENES}
        self._command = command
        self._bootstrap = bootstrap
        self._group_id = f"hold-{client}-{protocol}-{time.time_ns()}"
        self._topics = [f"{self._group_id}-{number}" for number in range(2)]
        self._chance = random.Random(f"{SEED} {client} {protocol}")
        self._all: list[Member] = []
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        for made in admin.create_topics([NewTopic(each, PARTITIONS, 1) for each in self._topics]).values():
            made.result(TOPICS_TIMEOUT_S)

    def settle(self) -> None:
        """Let two members join and share the first topic."""
        self.members = [self._begun() for _ in range(2)]
        for member in self.members:
            self._subscribe(member, *self._topics[:1])
        self._shared()
        time.sleep(REST_INTERVALS * INTERVAL_S[self.protocol])

    def live(self, rounds: int) -> None:
        """Play every scene, so many times."""
        for _ in range(rounds):
            newcomer = self._begun()
            self._quiet()
            self.times["join"].append(self._join(newcomer))
            self._commit()
            self._leave()
            self._change_subscription()
            self._join_slowly()
            self._leave()

    def kill(self) -> None:
        for member in self._all:
            member.kill()

    def _begun(self) -> Member:
        """Start a consumer that does not subscribe yet: the start of its process is not measured."""
        settings = {
            "bootstrap.servers": self._bootstrap,
            "group.id": self._group_id,
            "group.protocol": self.protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
        }
        if self.client == "confluent-kafka":
            settings["log_level"] = "5"  # warnings and above
        member = Member(f"m{len(self._all)}", self._command, "", settings)
        self._all.append(member)
        return member

    def _join(self, newcomer: Member) -> float:
        self.members.append(newcomer)
        began_at = self._subscribe(newcomer, *self._topics[:1])
        return self._shared() - began_at

    def _join_slowly(self) -> None:
        newcomer, slow = self._begun(), self.members[0]
        slow.tell(f"revoke {SLOW_REVOCATION_S * 1_000:.0f}")
        self._quiet()
        self.times["slow revocation"].append(self._join(newcomer))
        slow.tell("revoke 0")

    def _leave(self) -> None:
        """Let the youngest member leave."""
        self._quiet()
        leaver = self.members.pop()
        leaver.close()
        began_at = self._moment(leaver, "closing")
        self.times["close"].append(self._moment(leaver, "closed") - began_at)
        self.times["leave"].append(self._shared() - began_at)

    def _commit(self) -> None:
        """Let the two oldest members commit, each with something to commit."""
        produced_at = time.time()
        self._produce()
        wanted = {f"{self._topics[0]}-{number}" for number in range(PARTITIONS)}
        self._wait(lambda: self._read_since(produced_at) >= wanted, "every partition is read")
        self._quiet()
        for member in self.members[:2]:
            self.times["commit"].append(self._committed(member))

    def _committed(self, member: Member) -> float:
        """Let a member commit. Returns how many seconds it took."""
        before = len(member.told("committed"))
        member.tell("commit")
        self._wait(lambda: len(member.told("committed")) > before, "it has committed")
        return self._moment(member, "committed") - self._moment(member, "committing")

    def _change_subscription(self) -> None:
        member = self.members[0]
        more = {f"{self._topics[1]}-{number}" for number in range(PARTITIONS)}
        self._quiet()
        began_at = self._subscribe(member, *self._topics)
        self._wait(lambda: more <= member.owned.copy(), "the new topic is assigned")
        self.times["subscription"].append(self._moment(member, "assigned") - began_at)
        self._quiet()
        self._subscribe(member, *self._topics[:1])
        self._shared()

    def _quiet(self) -> None:
        time.sleep(self._chance.uniform(1, 2) * INTERVAL_S[self.protocol])

    def _subscribe(self, member: Member, *topics: str) -> float:
        """Let a member subscribe. Returns when it did."""
        before = len(member.told("subscribing"))
        member.tell(f"subscribe {','.join(topics)}")
        self._wait(lambda: len(member.told("subscribing")) > before, "it subscribes")
        return self._moment(member, "subscribing")

    def _shared(self) -> float:
        """Wait until each partition of the first topic has one owner, evenly, and return since when."""
        wanted = sorted(f"{self._topics[0]}-{number}" for number in range(PARTITIONS))

        def is_shared() -> bool:
            owned = [member.owned.copy() for member in self.members]
            sizes = [len(each) for each in owned]
            return sorted(chain(*owned)) == wanted and max(sizes) - min(sizes) <= 1

        self._wait(is_shared, "each partition has one owner, evenly")
        moves = [event["at"] for member in self.members for event in moves_of(member)]
        return float(max(moves)) / 1_000

    def _moment(self, member: Member, event: str) -> float:
        """When the last such event was, in seconds."""
        return float(member.told(event)[-1]["at"]) / 1_000

    def _read_since(self, moment: float) -> set[str]:
        return {
            event["partition"]
            for member in self.members
            for event in member.told("records")
            if event["at"] >= moment * 1_000
        }

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": 0})
        for number in range(PARTITIONS):
            producer.produce(self._topics[0], b"x", partition=number)
        if producer.flush(TOPICS_TIMEOUT_S):
            raise Broken("records could not be produced")

    def _wait(self, holds: Callable[[], Any], what: str) -> None:
        def checked() -> Any:
            for member in self.members:
                member.check()
            return holds()

        try:
            until(checked, f"{self.client}, {self.protocol}: {what}")
        except Broken as broken:
            words = "\n".join(member.story() for member in self.members)
            raise Broken(f"{broken}\n{words}") from None


def moves_of(member: Member) -> list[dict[str, Any]]:
    """The events by which a member was assigned partitions or lost some."""
    return [event for event in list(member.events) if event["event"] in _MOVES and event["partitions"]]
