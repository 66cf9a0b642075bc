"""The server-side assignors by the names that clients ask for and `group.consumer.assignors` lists."""

from __future__ import annotations

from collections.abc import Mapping

from actors.assignors import range as range_assignor
from actors.assignors import uniform
from actors.assignors.spec import Assignor

ASSIGNORS: Mapping[str, Assignor] = {
    uniform.NAME: uniform.assign,
    range_assignor.NAME: range_assignor.assign,
}
