"""Classes of Kafka's messages: kio's own, or classes like kio's for the versions that kio does not have yet.

What Kafka's schemas say of such an API stands in `schemas/<api>.json`, in kio's words: `tests.kafka.schemas`
writes these files from Kafka's jar. A class is made of them when it is first asked for. A test holds the made
classes of the older versions against kio's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, make_dataclass
from datetime import timedelta
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import GenericAlias, SimpleNamespace
from typing import Any, Final, Literal
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static import primitive
from kio.static.constants import EntityType

from actors.protocol.errors import UnsupportedRequest

Kind = Literal["request", "response"]
Row = Mapping[str, Any]
"""What a file says of one field. A key that is not there: every version has the field, none has it as null,
none as a tag, it has no default, it is no array."""

_FILES: Final = (Path(__file__).with_name("schemas"), Path(__file__).with_name("own_schemas"))
"""Where the files are: Kafka's, and those of requests of our own, which Kafka does not have."""
EXTENDED: Final = frozenset({"consumer_group_heartbeat"})
"""APIs of Kafka's to which tagged fields of our own were added. `made_classes` has these, kio's have not."""
_API_VERSIONS: Final = "api_versions"
_TYPES: Final[Mapping[str, Any]] = {
    "bool": bool,
    "int8": primitive.i8,
    "int16": primitive.i16,
    "uint16": primitive.u16,
    "int32": primitive.i32,
    "int64": primitive.i64,
    "float64": primitive.f64,
    "string": str,
    "bytes": bytes,
    "records": primitive.Records,
    "uuid": UUID | None,
    "error_code": ErrorCode,
    "timedelta_i32": primitive.i32Timedelta,
    "timedelta_i64": primitive.i64Timedelta,
    "datetime_i64": primitive.TZAware,
}


def classes(api: str, version: int, kind: Kind) -> Any:
    """Return what has the classes of a message as attributes, such as `MetadataResponseTopic`: kio's module
    if there is one. Raises UnsupportedRequest for an API ("join_group") or version that is not known."""
    try:
        return import_module(f"kio.schema.{api}.v{version}.{kind}")
    except ModuleNotFoundError as error:
        if version not in kept_versions(api):
            raise UnsupportedRequest(f"{api} version {version}") from error
    return made_classes(api, version, kind)


def known_versions(api: str) -> tuple[int, ...]:
    """Return the versions of an API that have classes."""
    try:
        package = import_module(f"kio.schema.{api}")
    except ModuleNotFoundError:
        return tuple(kept_versions(api))  # one of our own
    of_kio = {int(module.name[1:]) for module in iter_modules(package.__path__)}
    return tuple(sorted(of_kio | set(kept_versions(api))))


def kept_versions(api: str) -> range:
    """Return the versions of which this project keeps what the schema says; none of most APIs."""
    kept = _kept(api)
    return range(0) if kept is None else range(kept["versions"][0], kept["versions"][1] + 1)


@cache
def made_classes(api: str, version: int, kind: Kind) -> SimpleNamespace:
    """Return the classes of a message that are made of the data that is kept."""
    kept = _kept(api)
    assert kept is not None, api
    return classes_of(kept, version, kind)


def classes_of(schema: Mapping[str, Any], version: int, kind: Kind) -> SimpleNamespace:
    """Return the classes of a message whose schema has the form of the kept files."""
    flexible = version >= schema["flexible_since"]
    header = 1 + flexible if kind == "request" else int(flexible and schema["api"] != _API_VERSIONS)
    headers = import_module(f"kio.schema.{kind}_header.v{header}.header")
    common = {
        "__version__": version,
        "__flexible__": flexible,
        "__api_key__": schema["api_key"],
        "__module__": f"{__name__}.{schema['api']}.{kind}",
        "__header_schema__": getattr(headers, f"{kind.capitalize()}Header"),
    }
    message = schema[kind]
    made = SimpleNamespace()
    top = _class(made, message["name"], message["fields"], common)
    top.__type__ = EntityType[kind]
    return made


def record_class(schema: Mapping[str, Any], version: int) -> Any:
    """Return the class of a record that stands in a log, whose schema has the form of the kept files."""
    common = {
        "__version__": version,
        "__flexible__": version >= schema["flexible_since"],
        "__api_key__": schema["api_key"],
        "__module__": f"{__name__}.{schema['record']}",
    }
    made = _class(SimpleNamespace(), schema["name"], schema["fields"], common)
    made.__type__ = EntityType.data
    return made


def _class(made: SimpleNamespace, name: str, rows: Sequence[Row], common: Mapping[str, Any]) -> Any:
    if (known := getattr(made, name, None)) is not None:
        return known
    version = common["__version__"]
    present = (row for row in rows if _within(row.get("versions", [0]), version))
    fields = [(row["name"], *_field(made, row, common)) for row in present]
    entity_class = make_dataclass(
        name,
        fields,
        namespace={"__type__": EntityType.nested, **common},
        frozen=True,
        slots=True,
        kw_only=True,
    )
    setattr(made, name, entity_class)
    return entity_class


def _field(made: SimpleNamespace, row: Row, common: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the type of a field and its dataclass field."""
    version, metadata = common["__version__"], {}
    field_type: Any
    if "fields" in row:
        field_type = _class(made, row["type"], row["fields"], common)
    else:
        field_type = _TYPES[row["type"]]
        metadata["kafka_type"] = row["type"]
    is_array = row.get("array", False)
    if "tag" in row and _within(row["tagged"], version):
        metadata["tag"] = row["tag"]
    given = {"default": _default(row, field_type)} if "default" in row else {}
    if is_array:
        field_type = GenericAlias(tuple, (field_type, ...))
    if "nullable" in row and _within(row["nullable"], version):
        field_type = field_type | None
    return field_type, field(metadata=metadata, **given)


def _default(row: Row, field_type: Any) -> Any:
    default = row["default"]
    if default is None:
        return None
    if row.get("array", False):
        return ()
    if "fields" in row:
        return field_type()
    if row["type"] == "error_code":
        return ErrorCode(default)
    return timedelta(milliseconds=default) if row["type"].startswith("timedelta") else default


def _within(versions: Sequence[int], version: int) -> bool:
    """Whether a version lies in [first] and all later ones, or in [first, last]."""
    return versions[0] <= version and (len(versions) == 1 or version <= versions[1])


@cache
def _kept(api: str) -> Mapping[str, Any] | None:
    for folder in _FILES:
        path = folder / f"{api}.json"
        if path.is_file():
            schema: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return schema
    return None
