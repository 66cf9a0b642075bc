"""Values that one release pickles and another one reads: by the names of their fields, not by their order.

An actor's spec is kept on its machine's disk, and machines send it to each other, while a tier is upgraded.
What the reader does not know is left out, what the writer did not know gets its default.
"""

from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from typing import Any

Rebuilding = tuple[Any, tuple[type, dict[str, Any]]]
"""What `__reduce__` returns: the function that makes the value again, and its arguments."""


def by_name(value: Any) -> Rebuilding:
    """Return a named tuple or dataclass as pickle takes it."""
    return rebuilt, (type(value), {name: getattr(value, name) for name in _names(type(value))})


def rebuilt(cls: type, fields: dict[str, Any]) -> Any:
    """Return the value that `by_name` took apart, in this release's class."""
    names = _names(cls)
    return cls(**{name: value for name, value in fields.items() if name in names})


def _names(cls: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields_of(cls)) if is_dataclass(cls) else cls._fields
