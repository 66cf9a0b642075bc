"""Makes settled members for loads: they are made once on a peer, and used in every run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import uvloop

from actors.network.wire import message_class, request_frame
from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT
from actors.protocol.messages import ConsumerGroupHeartbeatRequest
from bench.member.consumer import ConsumerMember
from bench.member.requests import encoded
from bench.peers import topics
from bench.peers.classic import storm
from bench.peers.consumer import ConsumerGroup, Crowd
from bench.peers.lines import Address, coordinators, framed, open_all
from bench.peers.living import Living
from bench.peers.load import Target
from bench.peers.members import Member
from bench.peers.peer import Peer
from bench.peers.plan import kept

TOPIC: Final = "bench"
TOPIC_PARTITIONS: Final = 100


class Beating(NamedTuple):
    """A settled member of a KIP-848 group: its steady heartbeat and where it goes."""

    group_id: str
    at: Address
    frame: bytes
    first_frame: bytes
    """The heartbeat that a member sends first on a new connection: it says what the member owns."""


def classic_members(peer: Peer, count: int) -> list[Member]:
    """Make `count` classic members in small groups, or take those of an earlier run. On a peer without groups
    the members were never made."""
    peer.needs_connections(count)
    size = peer.group_size
    members: list[Member] = kept(peer, "classic members", list)
    if not peer.coordinates:
        host, port = peer.bootstrap[0]
        return [Member(f"group-{n // size}", f"member-{n}", 1, host, port) for n in range(count)]
    if len(members) < count:
        groups = [f"classic-{n}" for n in range(len(members) // size, -(-count // size))]
        made = uvloop.run(storm(peer, groups, size, peer.session_timeout_ms, stay=True))
        members += made.members
    at = _found(peer, (member.group_id for member in members[:count]))
    return [
        member._replace(host=at[member.group_id][0], port=at[member.group_id][1])
        for member in members[:count]
    ]


def consumer_members(peer: Peer, count: int) -> list[Beating]:
    """Make `count` consumer members in small groups, each of which has a topic of a hundred partitions."""
    peer.needs_groups()
    peer.version(CONSUMER_GROUP_HEARTBEAT, 1)
    bench_topic(peer)
    members: list[Beating] = kept(peer, "consumer members", list)
    if len(members) < count:
        size = peer.group_size
        groups = [f"consumer-{n}" for n in range(len(members) // size, -(-count // size))]
        members += uvloop.run(_settle(peer, groups))
    at = _found(peer, (member.group_id for member in members[:count]))
    return [member._replace(at=at[member.group_id]) for member in members[:count]]


def _found(peer: Peer, group_ids: Iterable[str]) -> dict[str, Address]:
    """The addresses of groups' coordinators, looked up now."""
    return uvloop.run(coordinators(peer.bootstrap[0], set(group_ids)))


def bench_topic(peer: Peer) -> str:
    """The topic of commits and steady groups."""
    if peer.coordinates:
        kept(peer, TOPIC, lambda: topics.create(peer, {TOPIC: TOPIC_PARTITIONS}))
    return TOPIC


async def _settle(peer: Peer, group_ids: list[str]) -> list[Beating]:
    found = await coordinators(peer.bootstrap[0], group_ids)
    groups = [ConsumerGroup(group_id, [TOPIC], TOPIC_PARTITIONS) for group_id in group_ids]
    of_line = [group for group in groups for _ in range(peer.group_size)]
    lines = await open_all(found[group.group_id] for group in of_line)
    crowd = Crowd(peer)
    for line, group in zip(lines, of_line, strict=True):
        crowd.add(line, group)
    try:
        await crowd.step(groups, crowd.join)
    finally:
        await crowd.stop()
        crowd.close()
    return [
        Beating(each.group.group_id, each.line.address, *map(framed, map(encoded, _heartbeats(each))))
        for each in crowd.members
    ]


def _heartbeats(each: Living[ConsumerMember]) -> tuple[ConsumerGroupHeartbeatRequest, ...]:
    """Make the heartbeat of a member that has nothing to say, and the one that says what it owns."""
    member = each.member
    beat = ConsumerGroupHeartbeatRequest(each.group.group_id, member.member_id, member.epoch)
    return beat, beat._replace(topic_partitions=member.owned)


def target(peer: Peer, member: Member, api: str, wanted: int, variants: list[dict[str, Any]]) -> Target:
    """Make a connection's target, which sends these requests in turn, in the newest version that the peer
    has, without the fields that this version lacks."""
    api_key = message_class(api, wanted, "request").__api_key__
    version = peer.version(api_key, wanted)
    fields = set(message_class(api, version, "request").__dataclass_fields__)
    frames = [
        request_frame(api, version, 1, "bench", {name: each[name] for name in each if name in fields})
        for each in variants
    ]
    return Target(member.host, member.port, api, version, frames)
