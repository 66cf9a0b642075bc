"""Work 6: what a member and a committed offset take, in each copy: 100,000 idle members of 1,000 KIP-848
groups, a partition each, then 1,000,000 offsets of 1,000 groups. On peers of its own.

The first fifth of either is not counted: with it come libraries and buffers of a fixed size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

import uvloop

from actors.network.wire import parse_answer, request_frame
from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT
from bench.member.answers import consumer_beaten
from bench.member.consumer import ConsumerMember
from bench.member.requests import encoded
from bench.peers import topics
from bench.peers.consumer import terms
from bench.peers.generator import error_codes
from bench.peers.lines import framed
from bench.peers.options import Options
from bench.peers.peer import Peer
from bench.peers.plan import Sample, Scenario
from bench.peers.runner import on_its_own
from bench.peers.sending import send

GROUPS: Final = 1_000
MEMBERS_EACH: Final = 100
OFFSETS_EACH: Final = 1_000
JOINED: Final = "memory-joined"
COMMITTED: Final = "memory-committed"


def scenarios(options: Options) -> list[Scenario]:
    """The scenarios: the bytes by which live memory grows, per member or offset and per replica."""
    groups = options.size(GROUPS, 20)
    return [
        Scenario(
            work=6,
            heading="Memory",
            label=f"{groups * MEMBERS_EACH:,} KIP-848 members, {groups * OFFSETS_EACH:,} offsets",
            measure=partial(_measure, groups),
            shown=("a member:bytes", "an offset:bytes"),
            fresh=True,
            goals={(ours, "a member:bytes"): 1_024 for ours in ("groupd-1", "groupd-3")},
        )
    ]


def _measure(groups: int, peer: Peer) -> Sample:
    peer.needs_groups()
    with on_its_own(peer) as own:
        own.version(CONSUMER_GROUP_HEARTBEAT, 1)
        topics.create(own, {JOINED: MEMBERS_EACH, COMMITTED: OFFSETS_EACH})
        own.wait_until_ready()
        figures = {
            "a member:bytes": _growth(_join, groups, MEMBERS_EACH, own),
            "an offset:bytes": _growth(_commit, groups, OFFSETS_EACH, own),
        }
    return Sample(figures=figures, requests=groups * (MEMBERS_EACH + 1))


def _growth(work: Callable[[range, Peer], None], groups: int, each: int, peer: Peer) -> float:
    """The bytes per member or offset of all groups but the first ones, for each replica."""
    first, rest = range(groups // 5), range(groups // 5, groups)
    work(first, peer)
    before = _settled_bytes(peer)
    work(rest, peer)
    return (_settled_bytes(peer) - before) / (len(rest) * each * peer.copies)


def _settled_bytes(peer: Peer) -> int:
    time.sleep(peer.settle_s)
    return peer.live_bytes()


def _join(groups: range, peer: Peer) -> None:
    group_ids = [f"joined-{n}" for n in groups]
    frames = ((group_id, _join_frame(group_id, n)) for n in range(MEMBERS_EACH) for group_id in group_ids)
    uvloop.run(send(peer, group_ids, frames, _joined))


def _join_frame(group_id: str, number: int) -> bytes:
    """Make the first heartbeat of a member, which sends no other."""
    member = ConsumerMember(terms(group_id, [JOINED]), f"member-{number}-{group_id}")
    return framed(encoded(member.heartbeat()))


def _joined(_: str, answer: bytes) -> int:
    return int(consumer_beaten(answer).error_code)


def _commit(groups: range, peer: Peer) -> None:
    version = peer.version(8, 7)
    group_ids = [f"committed-{n}" for n in groups]
    partitions = [
        {
            "partition_index": number,
            "committed_offset": 1_000_000 + number,
            "committed_leader_epoch": 0,
            "committed_metadata": "",
        }
        for number in range(OFFSETS_EACH)
    ]
    frames = ((group_id, _commit_frame(version, group_id, partitions)) for group_id in group_ids)
    uvloop.run(send(peer, group_ids, frames, partial(_committed, version)))


def _commit_frame(version: int, group_id: str, partitions: list[dict[str, object]]) -> bytes:
    fields = {
        "group_id": group_id,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": COMMITTED, "partitions": partitions}],
    }
    return request_frame("offset_commit", version, 1, "bench", fields)


def _committed(version: int, _: str, answer: bytes) -> int:
    return next(iter(error_codes(parse_answer("offset_commit", version, answer)[1])), 0)
