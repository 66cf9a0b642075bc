"""A spec that one release pickled is read by another: by the names of what both know."""

from __future__ import annotations

import copyreg
import pickle
from pathlib import Path
from typing import Any

import pytest

from actors.ground.carried import rebuilt
from actors.ground.settings import GroupSettings
from actors.ground.spec import BrokerSettings, HistorySettings, NodeSpec, RaftSettings, TierSpec
from tests.ground.specs import spec_in

FIRST_FIELDS = (
    *("tier_id", "secret", "data_dir", "run_dir", "nodes", "placement", "controllers", "raft_port_base"),
    *("formed", "leaving", "alone", "reconciler", "replica_lost_timeout_ms", "agent", "admin_password"),
    *("groups", "raft", "broker", "history"),
)
"""The fields of the spec that the first release pickled, in its order: machines have kept them so."""


def test_a_spec_comes_back_as_it_was(tmp_path: Path) -> None:
    spec = spec_in(tmp_path, nodes=2)
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize("cls", [GroupSettings, RaftSettings, BrokerSettings, HistorySettings])
def test_what_a_newer_release_added_is_left_out_and_what_an_older_one_lacks_is_as_by_default(
    cls: Any,
) -> None:
    assert rebuilt(cls, {"of_a_newer_release": 1}) == cls()


def test_a_node_comes_back_by_the_names_of_its_fields() -> None:
    node = NodeSpec(node_id=1, host="h", port=9_092, rack="a")
    assert pickle.loads(pickle.dumps(node)) == node
    assert rebuilt(NodeSpec, {"node_id": 1, "host": "h", "port": 9_092, "zone": 7}) == node.__class__(
        node_id=1, host="h", port=9_092
    )


def test_a_spec_that_the_first_release_pickled_by_order_is_read(tmp_path: Path) -> None:
    spec = spec_in(tmp_path, nodes=2)
    by_order = copyreg.__newobj__, (TierSpec, *(getattr(spec, name) for name in FIRST_FIELDS))  # type: ignore[attr-defined]
    make, arguments = by_order
    assert make(*arguments) == spec, "new fields of TierSpec stand behind the others, with a default"
