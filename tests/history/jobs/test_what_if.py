"""What `what_if` has to guess, it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from storage.history.jobs.engine import Engine
from storage.history.jobs.run import Wanted, WhatIf, made
from storage.history.jobs.seen import look
from storage.history.jobs.what_if import SAME_TOPICS
from tests.history.jobs.told import told


def test_a_group_of_several_topics_says_what_is_guessed(engine: Engine, tmp_path: Path) -> None:
    from cluster.replayed_assignors import replay

    def group(name: str, *topics: str) -> list[dict[str, Any]]:
        moves = [
            {"topic": topic, "partition": partition, "to_member": "a"}
            for topic in topics
            for partition in range(4)
        ]
        joined = [
            {"group_id": name, "at_ms": at_ms, "kind": "member_joined", "member_id": member}
            for at_ms, member in ((1, "a"), (2, "b"))
        ]
        return [*joined, {"group_id": name, "at_ms": 3, "kind": "rebalance_ended", "moves": moves}]

    folder = told(tmp_path, [*group("one", "t"), *group("two", "t", "u")])
    with made(engine, folder, look(folder), Wanted(what_if=WhatIf(("uniform",), replay))):
        found = {row["group_id"]: row for row in engine.rows("SELECT * FROM what_if")}
    assert [found["one"][name] for name in ("topics", "partitions", "assumes")] == [1, 4, None]
    assert [found["two"][name] for name in ("topics", "partitions", "assumes")] == [2, 8, SAME_TOPICS]
    assert [row["assignments"] for row in found.values()] == [2, 2]
