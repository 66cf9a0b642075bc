"""Holds the classes of one message against those of another source, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actors.protocol.entity_schema import shapes

RENAMED = {
    "generation_id_or_member_epoch": "generation_id",
    "acceptable_recovery_lag_legacy": "acceptable_recovery_lag",
}
"""Fields that Kafka 4.4 calls otherwise than the schemas of kio 0.6.5 do; their bytes are the same."""
OF_CLASSES = ("__name__", "__type__", "__version__", "__flexible__", "__api_key__", "__header_schema__")


def top(message: Any, api: str, kind: str) -> Any:
    """The class of the whole message among a message's classes."""
    return getattr(message, "".join(part.capitalize() for part in api.split("_")) + kind.capitalize())


def renamed(name: str) -> str:
    return RENAMED.get(name, name)


def differences(made: Any, theirs: Any) -> list[str]:
    """What is not the same in two classes and in those nested in them."""
    return list(_differences(made, theirs, theirs.__name__))


def _differences(made: Any, theirs: Any, path: str) -> Iterator[str]:
    for name in OF_CLASSES:
        if getattr(made, name) != getattr(theirs, name):
            yield f"{path}: {name} {getattr(made, name)} became {getattr(theirs, name)}"
    ours, others = shapes(made), shapes(theirs)
    if [renamed(shape.name) for shape in ours] != [renamed(shape.name) for shape in others]:
        yield f"{path}: {[shape.name for shape in ours]} became {[shape.name for shape in others]}"
        return
    for one, other in zip(ours, others, strict=True):
        if (one.entity is None) != (other.entity is None):
            yield f"{path}.{one.name}: an entity on one side"
        elif one.entity is not None:
            yield from _differences(one.entity, other.entity, f"{path}.{one.name}")
        # A default that is an entity is one of the made class, and has been compared with its class.
        plain = one._replace(name="", entity=None), other._replace(name="", entity=None)
        if one.entity is not None and not one.is_array:
            plain = plain[0]._replace(default=None), plain[1]._replace(default=None)
        if plain[0] != plain[1]:
            yield f"{path}.{one.name}: {one} became {other}"
