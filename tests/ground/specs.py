"""The smallest tiers that tests of actors need: one offsets partition, a copy of it on each node."""

from __future__ import annotations

from pathlib import Path

from actors.ground.spec import NodeSpec, TierSpec, copies


def spec_in(directory: Path, *, nodes: int = 1) -> TierSpec:
    """Return the spec of a tier all of whose files are below the directory."""
    numbers = tuple(range(1, nodes + 1))
    return TierSpec(
        tier_id="t" * 22,
        secret="secret",
        data_dir=str(directory / "data"),
        run_dir=str(directory),
        nodes=tuple(NodeSpec(node_id=number, host="127.0.0.1", port=number) for number in numbers),
        placement=(copies(numbers),),
        controllers=copies(numbers),
    )
