"""A backup's directory appears whole or not at all, and its commands refuse in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from actors.coordinator.transactions.states import ONGOING, PREPARE_COMMIT
from actors.ground.contract import Record
from actors.ground.image import NO_TOPIC_ID
from actors.ground.records import (
    CLASSIC_MEMBER,
    OFFSET_COMMIT,
    PENDING_TXN_OFFSET,
    TRANSACTION,
    OffsetCommitKey,
    OffsetCommitValue,
    PendingTxnOffsetKey,
    PendingTxnOffsetValue,
    TransactionKey,
    TransactionValue,
)
from actors.ground.spec import NodeSpec, TierSpec, copies
from cluster.backup import whole_or_nothing
from cluster.backup_manifest import Manifest
from cluster.cli import app
from cluster.group_leaders import GroupLeaders
from cluster.restore import Report, _Groups
from cluster.restored_transactions import BackedUpTransactions
from cluster.tier_file import TierError

RUNNER = CliRunner()


def test_a_directory_appears_with_everything_in_it(tmp_path: Path) -> None:
    directory = tmp_path / "backup"
    with whole_or_nothing(directory) as partial:
        (partial / "file").write_text("content")
        assert not directory.exists()
    assert (directory / "file").read_text() == "content"
    assert list(tmp_path.iterdir()) == [directory]


@pytest.mark.parametrize("error", [TierError("no leader"), KeyboardInterrupt(), OSError(28, "disk full")])
def test_whatever_goes_wrong_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    with (  # noqa: PT012
        pytest.raises((TierError, KeyboardInterrupt)),
        whole_or_nothing(tmp_path / "backup") as partial,
    ):
        (partial / "file").write_text("content")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_there_is_not_touched(tmp_path: Path) -> None:
    directory = tmp_path / "backup"
    directory.mkdir()
    with pytest.raises(TierError, match="is there already"), whole_or_nothing(directory):
        pass
    assert list(tmp_path.rglob("*")) == [directory]


def test_a_backup_under_way_is_not_touched(tmp_path: Path) -> None:
    """Nor what an interrupted one left: only its owner knows."""
    with (
        whole_or_nothing(tmp_path / "backup") as partial,
        pytest.raises(TierError, match=r"backup\.partial is there"),
        whole_or_nothing(tmp_path / "backup"),
    ):
        pass
    assert partial.with_suffix("").exists()


@pytest.mark.parametrize("command", [["backup", "x"], ["leaders"], ["leaders", "move", "0"]], ids=" ".join)
def test_a_tier_that_is_not_there_is_said_so(tmp_path: Path, command: list[str]) -> None:
    result = RUNNER.invoke(app, [*command, "--data-dir", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no tier in" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_backup_is_said_so_without_a_tier(tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["restore", str(tmp_path / "nowhere"), "--data-dir", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "nowhere is no backup" in result.stderr


def test_offsets_of_deleted_topics_and_members_are_left_out_and_counted() -> None:
    """A record of a kind that this release does not know is not left out in silence."""
    spec = TierSpec(
        tier_id="t" * 22,
        secret="",
        data_dir="",
        run_dir="",
        nodes=(NodeSpec(node_id=1, host="127.0.0.1", port=1),),
        placement=(copies((1,)), copies((1,))),
        controllers=copies((1,)),
    )
    manifest = Manifest(tier_id="t" * 22, created_at="", groupd="", partitions=1, files=())
    groups = _Groups(GroupLeaders(spec), Report(manifest=manifest), frozenset({b"k" * 16}))

    def offset(topic_id: bytes) -> tuple[int, int, str, int, int, bytes]:
        return 7, -1, "", 0, -1, topic_id

    key = (OFFSET_COMMIT, "group", "topic", 0)
    kept = [groups._kept(key, offset(topic_id)) for topic_id in (b"k" * 16, NO_TOPIC_ID, b"d" * 16)]
    assert [record is not None for record in kept] == [True, True, False]
    assert groups._kept((CLASSIC_MEMBER, "group", "member"), ()) is None
    assert groups._left_out == {"offsets": 1, "members": 1}
    with pytest.raises(TierError, match="records of kind 999, which this groupd does not know"):
        groups._kept((999, "group"), ())


def test_what_a_decided_transaction_had_pending_is_committed_and_nothing_else() -> None:
    """EndTxn was acknowledged when the outcome was decided, so its offsets may not go with its markers."""

    def pending(producer_id: int, partition: int, offset: int, sequence: int, replaces: Any = None) -> Any:
        key = PendingTxnOffsetKey(PENDING_TXN_OFFSET, "g", "t", partition, producer_id)
        return key, PendingTxnOffsetValue(0, offset, -1, "", 9, b"k" * 16, sequence, replaces)

    def transaction(producer_id: int, state: int) -> Any:
        value = TransactionValue(producer_id, -1, 0, -1, 60_000, state, (), 5, 6)
        return TransactionKey(TRANSACTION, f"tx-{producer_id}"), value

    def committed(partition: int, offset: int) -> Record:
        value = OffsetCommitValue(offset, -1, "", 7, -1, b"k" * 16)
        return Record(OffsetCommitKey(OFFSET_COMMIT, "g", "t", partition), value)

    found = BackedUpTransactions()
    found.read(
        [
            pending(1, 0, 10, 1, (4, 7)),
            pending(2, 0, 20, 2, (4, 7)),
            pending(1, 1, 11, 3, (5, 7)),
            pending(1, 2, 12, 4),
            pending(3, 3, 13, 5),
            transaction(1, PREPARE_COMMIT),
            transaction(2, PREPARE_COMMIT),
            transaction(3, ONGOING),
        ]
    )
    found.decide()
    after = [found.after_decided(committed(partition, 4)).value for partition in (0, 1, 3)]
    assert [value.offset for value in after if isinstance(value, OffsetCommitValue)] == [20, 4, 4]
    (left,) = found.left()
    assert (left.key[3], left.value and left.value[0]) == (2, 12)
