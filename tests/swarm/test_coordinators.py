"""Members of several groups on few connections: which of them share one."""

from __future__ import annotations

from typing import Final

import pytest

from actors.protocol.java_hash import partition_for
from bench.swarm.planning.clients import CLIENTS
from bench.swarm.wire.coordinators import Coordinators
from cluster.groups.properties import properties
from storage.history.calls import Call
from tests.swarm.broker import ScriptedBroker

GROUPS: Final = tuple(f"orders-{number}" for number in range(12))
PARTITIONS: Final = 4
JAVA: Final = next(iter(CLIENTS.values()))


@pytest.mark.parametrize("is_held", [False, True], ids=["shared", "held"])
def test_groups_of_one_offsets_partition_share_a_connection_and_others_do_not(is_held: bool) -> None:
    with ScriptedBroker(lambda _: None) as broker:
        given = properties(broker.bootstrap, None)
        host, port = broker.bootstrap.split(":")
        address = host, int(port)
        coordinators = Coordinators(given, "worker-0", 100)
        coordinators.offsets_partitions = PARTITIONS
        lines = {}
        for group_id in GROUPS:
            who = Call("client", "", "", 0, group_id=group_id)
            if is_held:
                lines[group_id] = coordinators.lend(address, who, JAVA)
                coordinators.returned(address, who, JAVA, lines[group_id])
            else:
                lines[group_id] = coordinators.take(address, who, JAVA, "client")
        by_line: dict[object, set[int]] = {}
        for group_id, line in lines.items():
            by_line.setdefault(line, set()).add(partition_for(group_id, PARTITIONS))
        coordinators.close()
    hit = {partition_for(group_id, PARTITIONS) for group_id in GROUPS}
    assert sorted(map(sorted, by_line.values())) == [[partition] for partition in sorted(hit)]
    assert len(hit) > 1
