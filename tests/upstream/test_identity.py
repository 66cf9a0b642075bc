"""What a node keeps on disk of its place upstream."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.upstream.identity import NAME, Identity, IdentityRefused, of_node, read, write

FIRST, SECOND = b"\x01" * 16, b"\x02" * 16


def test_the_first_incarnation_stays(tmp_path: Path) -> None:
    made = of_node(tmp_path / "node", "cluster", 1001, FIRST)
    assert made == Identity("cluster", 1001, FIRST, -1)
    assert of_node(tmp_path / "node", "cluster", 1001, SECOND) == made


def test_the_last_epoch_is_kept(tmp_path: Path) -> None:
    made = of_node(tmp_path, "cluster", 1001, FIRST)
    write(tmp_path, made._replace(broker_epoch=77))
    assert of_node(tmp_path, "cluster", 1001, SECOND).broker_epoch == 77
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_what_a_crash_has_left_of_a_write_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.partial").write_text("{" * 1_000)
    made = of_node(tmp_path, "cluster", 1001, FIRST)
    assert read(tmp_path) == made


@pytest.mark.parametrize(("cluster_id", "broker_id"), [("another", 1001), ("cluster", 1002)])
def test_a_directory_belongs_to_one_broker(tmp_path: Path, cluster_id: str, broker_id: int) -> None:
    of_node(tmp_path, "cluster", 1001, FIRST)
    with pytest.raises(IdentityRefused, match="belongs to broker 1001 of cluster cluster, not to broker"):
        of_node(tmp_path, cluster_id, broker_id, SECOND)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read"),
        ("{}", "cannot be read: KeyError"),
        ("[]", "cannot be read: TypeError"),
        ('{"format": 2}', "has format 2; this groupd reads 1"),
        (
            '{"format": 1, "cluster_id": "c", "broker_id": 1, "incarnation_id": "00", "broker_epoch": 1}',
            "is no incarnation id",
        ),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(IdentityRefused, match=words):
        read(tmp_path)
