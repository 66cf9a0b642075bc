"""After a run every offset that was committed is read: what was thrown away comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

from actors.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
from bench.member.assigning import CLASSIC_RANGE
from bench.swarm.load.driver import run_swarm
from bench.swarm.load.final_reader import FILE, Committed, read_all
from bench.swarm.planning.plan import START, Action, MemberPlan, Plan, TopicPlan
from bench.swarm.told.report import report
from cluster.groups.properties import properties
from storage.history.call_files import read_file
from storage.history.calls import READER, Call, Offset, Topic
from tests.swarm.whole_broker import Whole

MEMBER = MemberPlan(
    "orders/0", "orders", CLASSIC_RANGE, ("clicks",), heartbeat_interval_ms=200, commit_interval_ms=300
)
OTHER = MEMBER._replace(name="billing/0", group_id="billing")
IDLE = MEMBER._replace(name="idle/0", group_id="idle", topics=("views",), commit_interval_ms=0)
TOPICS = (TopicPlan("clicks", 2), TopicPlan("views", 2))
PLAN = Plan("test", 1, 2.0, TOPICS, (MEMBER, OTHER, IDLE), (Action(0.0, START, "orders/0"),))


def committed() -> Whole:
    """Return a broker that holds the commits of two groups."""
    whole = Whole()
    for topic, partitions in TOPICS:
        whole.topics[topic], whole.ids[topic] = partitions, uuid4()
    whole.offsets = {("orders", "clicks", 0): 7, ("orders", "clicks", 1): 8, ("billing", "clicks", 0): 9}
    return whole


def read(whole: Whole, directory: Path, made: dict[str, bytes] | None = None) -> tuple[str, list[Any]]:
    """Run the reader. Returns the words that it says, and the rows that it records."""
    with whole.serving() as broker:
        given = properties(broker.bootstrap, None)
        words = read_all(Committed(PLAN, made or {}), given, directory, "run", idle_s=0.5)
    return words, read_file(directory / FILE).rows


def fetched(rows: list[Any]) -> dict[str, tuple[Offset, ...]]:
    fine = (row for row in rows if isinstance(row, Call) and row.api == "OffsetFetch" and row.is_fine)
    return {call.group_id: call.offsets for call in fine}


def test_all_partitions_of_all_groups_that_commit_are_read(tmp_path: Path) -> None:
    words, rows = read(committed(), tmp_path)
    assert words == ""
    assert fetched(rows) == {
        "orders": (Offset("clicks", 0, 7), Offset("clicks", 1, 8)),
        "billing": (Offset("clicks", 0, 9), Offset("clicks", 1, -1)),
    }
    assert {row.client for row in rows if isinstance(row, Call)} == {READER}


def test_groups_that_are_read_at_once_share_a_connection(tmp_path: Path) -> None:
    """Two connections of one name had their answers told as out of order."""
    _, rows = read(committed(), tmp_path)
    asked = {row.connection for row in rows if isinstance(row, Call) and row.api == "OffsetFetch"}
    connects = [row.connection for row in rows if isinstance(row, Call) and row.api == "Connect"]
    assert len(asked) == 1
    assert len(connects) == len(set(connects))


def test_what_is_refused_is_asked_again(tmp_path: Path) -> None:
    whole = committed()
    whole.loading = [14, 16, 14]
    words, rows = read(whole, tmp_path)
    assert (words, fetched(rows).keys()) == ("", {"orders", "billing"})
    assert sum(isinstance(row, Call) and row.error_code in (14, 16) for row in rows) == 3


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    whole = committed()
    whole.loading = [16] * 1_000
    words, rows = read(whole, tmp_path)
    assert words == (
        "The offsets of 2 of 2 groups could not be read at the end, as of orders: NOT_COORDINATOR."
    )
    assert fetched(rows) == {}


def test_a_server_that_is_gone_is_told_and_leaves_rows(tmp_path: Path) -> None:
    whole = committed()
    with whole.serving() as broker:
        given = properties(broker.bootstrap, None)
    words = read_all(Committed(PLAN, {}), given, tmp_path, "run", idle_s=0.5)
    assert words.startswith("No committed offset could be read at the end: 127.0.0.1:")
    assert {row.api for row in read_file(tmp_path / FILE).rows if isinstance(row, Call)} == {"Connect"}


def test_a_topic_that_is_gone_or_was_made_again_is_left_out_and_told(tmp_path: Path) -> None:
    """The offsets of such a topic are gone with it."""
    for place, made in enumerate(({}, {"clicks": uuid4().bytes})):
        whole = committed()
        if not made:
            del whole.topics["clicks"]
        (tmp_path / str(place)).mkdir()
        words, rows = read(whole, tmp_path / str(place), made)
        assert (words, fetched(rows)) == ("", {})
        assert [row[:2] for row in rows if isinstance(row, Topic)] == [("clicks", 0)]


class Swallowing(Whole):
    """A broker that acknowledges commits and throws them away."""

    def _committed(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        answer = super()._committed(request)
        self.offsets.clear()
        return answer


def test_commits_that_are_acknowledged_and_thrown_away_are_lost(tmp_path: Path) -> None:
    """Once nobody read these commits: the judge said "judged 2,850 commits", and the exit code was 0."""
    alone = PLAN._replace(members=(MEMBER,), topics=TOPICS[:1])
    with Swallowing().serving() as broker:
        swallowed = report(run_swarm(alone, broker.bootstrap, tmp_path / "swallowed"))
    assert swallowed.verdict.status == "broken"
    assert swallowed.verdict.by_rule == {"commit lost": 2}
    with Whole().serving() as broker:
        kept = report(run_swarm(alone, broker.bootstrap, tmp_path / "kept"))
    commits = kept.verdict.promises[0]
    assert (kept.verdict.status, commits.status) == ("kept", "kept")
    count = kept.verdict.judged["commits"]
    assert commits.because == f"{count:,} of {count:,} acknowledged commits are covered by a later read"
