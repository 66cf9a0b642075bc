"""The tier's nodes: the spec's when a tier begins, the metadata image's ever after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from actors.ground.image import AS_BEGUN, DRAINING, MetadataImage, NodeHome, NodeImage
from actors.ground.nodes import node_address, nodes_of
from tests.ground.specs import spec_in

ADDED = NodeImage(7, "seventh.example", 9_097, "rack-b")


def test_before_an_image_names_nodes_they_are_those_the_tier_began_with(tmp_path: Path) -> None:
    spec = spec_in(tmp_path, nodes=2)
    assert nodes_of(spec, MetadataImage()) == spec.nodes


def test_a_node_that_was_added_is_where_the_image_says(tmp_path: Path) -> None:
    spec = spec_in(tmp_path, nodes=2)
    image = MetadataImage(nodes=(ADDED, NodeImage(1, "127.0.0.1", 31_001), NodeImage(2, "127.0.0.1", 31_002)))
    assert [node.node_id for node in nodes_of(spec, image)] == [1, 2, 7]
    assert node_address(spec, image, 7) == ("seventh.example", 9_097)


def test_of_a_node_behind_a_proxy_the_tier_uses_the_port_that_it_binds(tmp_path: Path) -> None:
    """The image has the port that clients are told."""
    image = MetadataImage(nodes=(NodeImage(1, "127.0.0.1", 31_001),))
    assert node_address(spec_in(tmp_path), image, 1) == ("127.0.0.1", 1)


def test_a_node_on_a_machine_of_its_own_is_where_the_image_says_once_it_moved(tmp_path: Path) -> None:
    """A tier on one machine begins anew with each start, so its spec is newer than the image."""
    spec = spec_in(tmp_path)
    there = replace(spec.nodes[0], machine="h1:9900")
    image = MetadataImage(nodes=(NodeImage(1, "h2", 1),), homes={1: NodeHome(1, "h2:9900")})
    moved = replace(there, host="h2", machine="h2:9900")
    assert nodes_of(spec._replace(nodes=(there,)), image) == (moved,)
    assert nodes_of(spec, image) == spec.nodes[:1]
    begun = MetadataImage(nodes=image.nodes.values(), homes={1: NodeHome(AS_BEGUN, duty=DRAINING)})
    assert nodes_of(spec._replace(nodes=(there,)), begun) == (there,)


def test_a_node_that_nobody_knows_cannot_be_reached(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match="the tier has no node 9"):
        node_address(spec_in(tmp_path), MetadataImage(), 9)
