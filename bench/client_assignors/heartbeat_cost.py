"""What a steady KIP-848 heartbeat costs a leader in Python, with assignors of members and without.

Run `python -m bench.client_assignors.heartbeat_cost`. The lane compares bytes: where it answers, all cost
the same. So this is without the lane and in process, from the frame to the answer: of a heartbeat that
repeats the bytes of the one before it, and of one that is decoded. Calls are counted, of Python functions
and of those in C. With `--sort` and `--beats` heartbeats are sent and nothing else, for `perf stat -e
instructions:u`: the difference of two numbers of them is without the start.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Final

from actors.assignors.by_members.sticky import Sticky
from actors.assignors.by_members.weighted import CapacityWeighted
from actors.catalog.headers import parse_header
from actors.network.wire import frame_of, parsed
from bench.client_assignors.wire import (
    HEARTBEAT,
    INSTALL,
    PREPARE,
    assignor_fields,
    class_with_tags,
    install_fields,
    prepared_told,
)
from bench.ground.steady_heartbeat import steady_heartbeat
from bench.member.computing import ComputingMember
from bench.member.consumer import ConsumerTerms
from bench.replica.offsets import NOW_MS, TOPIC, Pair, counted
from cluster.cli.common import console
from cluster.cli.tables import Table

PLAIN: Final = "no assignors"
SILENT: Final = "assignors, said once"
SAYING: Final = "assignors, said always"
SORTS: Final = (PLAIN, SILENT, SAYING)
GROUP: Final = "steady"
FORMING_MS: Final = 10_000
"""Longer than a new group waits for further members."""
MEMBER: Final = "member-0123456789"


class Leader(Pair):
    """A leader with one group of one member that has all that it is to have."""

    def __init__(self, sort: str) -> None:
        super().__init__()
        self.answers: list[bytes] = []
        self._line.answer = self.answers.append  # type: ignore[assignment,method-assign]
        terms = ConsumerTerms(GROUP, (TOPIC,))
        member = ComputingMember(terms, MEMBER, [CapacityWeighted(2), Sticky()])
        self._assignors = [] if sort == PLAIN else assignor_fields(member.heartbeat().client_assignors or ())
        self._settle(member)
        said = {"client_assignors": self._assignors} if sort == SAYING else {}
        self.frame = self._frame(HEARTBEAT, steady_heartbeat(GROUP, MEMBER, self._epoch, **said))
        _, last = self._decoded(self.frame)
        assert last is not None
        self._last = last

    def _settle(self, member: ComputingMember) -> None:
        joining = {"rebalance_timeout": 60_000, "subscribed_topic_names": [TOPIC], "topic_partitions": []}
        told = self._told(
            HEARTBEAT, steady_heartbeat(GROUP, MEMBER, 0, client_assignors=self._assignors, **joining)
        )
        self._epoch = told["member_epoch"]
        if told["should_compute_assignment"]:
            member.epoch = self._epoch
            prepared = self._told(PREPARE, member.prepare()._asdict())
            given = install_fields(member.install(prepared_told(prepared)))
            assert self._told(INSTALL, given)["error_code"] == 0
            told = self._told(HEARTBEAT, steady_heartbeat(GROUP, MEMBER, self._epoch))
        while told["assignment"] is not None:
            self._epoch, owned = told["member_epoch"], told["assignment"]["topic_partitions"]
            told = self._told(HEARTBEAT, steady_heartbeat(GROUP, MEMBER, self._epoch, topic_partitions=owned))

    def _frame(self, api: tuple[str, int], fields: dict[str, Any]) -> bytes:
        return frame_of(class_with_tags(*api, "request"), 1, "bench", fields)[4:]

    def _told(self, api: tuple[str, int], fields: dict[str, Any]) -> dict[str, Any]:
        """Send a request, and commit what it decides. Returns what is answered."""
        answer, _ = self._decoded(self._frame(api, fields))
        self.leader.run_timers(NOW_MS + FORMING_MS)
        self.leader.flush()
        while self._index < len(self.entries):
            self._index += 1
            self.leader.apply(self._index, self.term, self.entries[self._index - 1])
        packed = self.answers.pop() if answer is None else answer
        return parsed(class_with_tags(*api, "response"), packed[4:])[1]

    def _decoded(self, frame: bytes) -> Any:
        header, body_offset = parse_header(frame)
        return self._server.serve(header, frame, body_offset, self._line)

    def decode(self) -> None:
        """Serve a heartbeat as if it came on a new connection."""
        assert self._decoded(self.frame)[0] is not None

    def repeat(self) -> None:
        """Serve a heartbeat that repeats the one before it."""
        assert self._server.serve_again(self._last, self.frame, self._line.answer) is not None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.client_assignors.heartbeat_cost")
    parser.add_argument("--sort", choices=SORTS, help="only send heartbeats of this sort")
    parser.add_argument("--beats", type=int, default=0, help="how many; they repeat the bytes of the first")
    asked = parser.parse_args()
    if asked.sort is not None:
        leader = Leader(asked.sort)
        for _ in range(asked.beats):
            leader.repeat()
        return
    table = Table("heartbeat", "bytes", "calls, Python + C: repeated", "decoded")
    for sort in SORTS:
        leader = Leader(sort)
        table.add_row(
            sort, str(len(leader.frame)), *(str(_counted(work)) for work in (leader.repeat, leader.decode))
        )
    console.print(table)


def _counted(work: Callable[[], None]) -> Any:
    work()
    return counted(work)


if __name__ == "__main__":
    main()
