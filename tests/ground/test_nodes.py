"""The tier's nodes: the spec's when a tier begins, the metadata image's ever after."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.ground.image import MetadataImage, NodeImage
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


def test_a_node_that_nobody_knows_cannot_be_reached(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match="the tier has no node 9"):
        node_address(spec_in(tmp_path), MetadataImage(), 9)
