"""Read and write `placement.json` beside a tier's `tier.json`: which nodes there are and where the replicas
are, as the controller has it.

Every replica of the controller writes it on its machine, so that the next start of the tier begins with the
replicas that there are now. It may be older than what the controller knows (its machine was away): then the
controller's leader, once it is elected, makes what is missing and stops what is too much.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from actors.ground.spec import Copies, Copy, NodeSpec
from actors.metadata.records import GroupPlacementValue, SplitValue

NAME = "placement.json"
FORMAT = 1
"""The format that this code writes; a newer one is refused."""


class PlacementUnreadable(Exception):
    """Raised if the file is damaged, or of another format; the text names the file."""


class SavedPlacement(NamedTuple):
    tier_id: str
    version: int
    """The version of the metadata image that says so: the higher one is newer."""
    placements: Mapping[str, GroupPlacementValue]
    """Group -> where its replicas are."""
    nodes: tuple[NodeSpec, ...] = ()
    """The tier's nodes; (): those with which it began."""
    split: SplitValue | None = None
    """How far the last split of the offsets partitions was; None: there was none."""


def read(data_dir: Path) -> SavedPlacement | None:
    """Return the saved placement; None if there is none. Raises PlacementUnreadable."""
    path = data_dir / NAME
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise PlacementUnreadable(f"{path} has format {content['format']}; this groupd reads {FORMAT}")
        placements = {group: _value(row) for group, row in content["groups"].items()}
        split = content.get("split")
        return SavedPlacement(
            content["tier_id"],
            int(content["version"]),
            placements,
            tuple(NodeSpec(**node) for node in content.get("nodes", ())),
            None if split is None else _split(split),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlacementUnreadable(
            f"{path} cannot be read: {error!r}; without that file the tier starts with the replicas that "
            "tier.json names"
        ) from error


def write(data_dir: Path, saved: SavedPlacement) -> None:
    """Replace the file in one step, unless it is newer already. Raises OSError."""
    path = data_dir / NAME
    with (data_dir / f"{NAME}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_newer(data_dir, saved):
            return
        partial = path.with_suffix(".partial")
        with partial.open("w", encoding="utf-8") as file:
            json.dump(_content(saved), file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)


def _is_newer(data_dir: Path, saved: SavedPlacement) -> bool:
    try:
        found = read(data_dir)
    except PlacementUnreadable:
        return False  # a file that cannot be read is of no use to anybody, so it is replaced
    return found is not None and found.tier_id == saved.tier_id and found.version >= saved.version


def _content(saved: SavedPlacement) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "tier_id": saved.tier_id,
        "version": saved.version,
        "groups": {group: value._asdict() for group, value in sorted(saved.placements.items())},
        **({"nodes": [asdict(node) for node in saved.nodes]} if saved.nodes else {}),
        **({"split": saved.split._asdict()} if saved.split is not None else {}),
    }


def _split(row: Mapping[str, Any]) -> SplitValue:
    return SplitValue(int(row["partitions"]), tuple(row["unmoved"]), tuple(row["undropped"]))


def _value(row: Mapping[str, Any]) -> GroupPlacementValue:
    return GroupPlacementValue(
        _copies(row["copies"]), int(row["next_replica_id"]), _copies(row.get("leaving", ()))
    )


def _copies(row: Any) -> Copies:
    return tuple(Copy(int(replica_id), int(node_id)) for replica_id, node_id in row)
