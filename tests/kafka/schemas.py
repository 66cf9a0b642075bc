"""Kafka's message schemas, read from a jar of Kafka's and written in kio's words.

    python -m tests.kafka.schemas                       # the schemas that the project keeps, anew
    python -m tests.kafka.schemas metadata              # all records of the metadata log
    python -m tests.kafka.schemas api_versions heartbeat

Kafka's jar of clients has a JSON file for each message. `actors/protocol/schema_classes.py` makes classes of
what is written here, for versions that kio has not got. Names and types are those that kio's generator
chooses. The records of `__cluster_metadata`, of which kio has none, are written in the same words: they are
in another jar.
"""

from __future__ import annotations

import builtins
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kafka import jvm

KEPT = Path(__file__).parents[2] / "actors" / "protocol" / "schemas"
MESSAGES = "common/message/"
KEPT_RECORDS = Path(__file__).parents[2] / "actors" / "upstream" / "schemas"
RECORDS = "common/metadata/"
METADATA = "metadata"
"""The word for all records of the metadata log on the command line."""
NO_VERSION_ABOVE = 2**15 - 1
Json = dict[str, Any]

TIMES = frozenset(
    {
        "timeoutMs",
        "TimeoutMs",
        "ThrottleTimeMs",
        "MaxWaitMs",
        "SessionLifetimeMs",
        "TransactionTimeoutMs",
        "MaxLifetimeMs",
        "SessionTimeoutMs",
        "RebalanceTimeoutMs",
        "ExpiryTimePeriodMs",
        "RenewPeriodMs",
        "RetentionTimeMs",
        "HeartbeatIntervalMs",
        "PushIntervalMs",
        "AcquisitionLockTimeoutMs",
        "TaskOffsetIntervalMs",
    }
)
"""Fields that are durations to kio."""
DATES = frozenset(
    {"IssueTimestampMs", "ExpiryTimestampMs", "MaxTimestampMs", "TransactionStartTimeMs", "LogAppendTimeMs"}
)
"""Fields that are points in time to kio."""
ERRORS = frozenset({"ErrorCode", "PartitionErrorCode"})
NUMBERS = {"bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64"}
PRIMITIVES = NUMBERS | {"string", "bytes", "records", "uuid"}
NEVER_NULL = NUMBERS | {"error_code"}


def clients_jar() -> Path:
    """The jar of Kafka's clients among those that the tests fetch."""
    return next((jvm.build() / "libs").glob("kafka-clients-*.jar"))


def metadata_jar() -> Path:
    """The jar that has the records of the metadata log."""
    return next((jvm.build() / "libs").glob("kafka-metadata-*.jar"))


def messages(jar: Path, folder: str = MESSAGES) -> Iterator[Json]:
    """Every message in a folder of the jar as Kafka writes it, without the comments."""
    with zipfile.ZipFile(jar) as archive:
        for name in sorted(archive.namelist()):
            if name.startswith(folder) and name.endswith(".json"):
                text = archive.read(name).decode()
                yield json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


def schemas(jar: Path) -> dict[str, Json]:
    """Every API of the jar by kio's name of it, in the form of the kept files."""
    pairs: dict[int, dict[str, Json]] = {}
    for message in messages(jar):
        if message["type"] in ("request", "response"):
            pairs.setdefault(message["apiKey"], {})[message["type"]] = message
    found = {}
    for api_key, pair in sorted(pairs.items()):
        request = pair["request"]
        if request["validVersions"] == "none":
            continue
        name = snake_case(request["name"].removesuffix("Request"))
        found[name] = {
            "api": name,
            "api_key": api_key,
            "versions": (_versions(request["validVersions"]) * 2)[:2],
            "flexible_since": (_versions(request["flexibleVersions"]) or [NO_VERSION_ABOVE])[0],
            "request": _message(request),
            "response": _message(pair["response"]),
        }
    return found


def record_schemas(jar: Path) -> dict[str, Json]:
    """Every record of the metadata log by its name, in the form of the kept files."""
    found = {}
    for record in messages(jar, RECORDS):
        name = snake_case(record["name"].removesuffix("Record"))
        found[name] = {
            "record": name,
            "api_key": record["apiKey"],
            "versions": (_versions(record["validVersions"]) * 2)[:2],
            "flexible_since": _versions(record["flexibleVersions"])[0],
            **_message({**record, "fields": [_with_default(field) for field in record["fields"]]}),
        }
    return found


def _with_default(field: Json) -> Json:
    """The field of a record; a tagged number that has no default of its own is 0 where its tag is absent."""
    return {"default": "0", **field} if "tag" in field and field["type"] in NUMBERS else field


def _message(message: Json) -> Json:
    structs = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", ())}
    return {"name": message["name"], "fields": [_row(each, structs) for each in message["fields"]]}


def _row(field: Json, structs: Mapping[str, Sequence[Json]]) -> Json:
    row: Json = {"name": _name(field), "type": _type(field)}
    if field["type"].startswith("[]"):
        row["array"] = True
    if (versions := _versions(field.get("versions") or field["taggedVersions"])) != [0]:
        row["versions"] = versions
    if (nullable := _nullable(field, row)) is not None:
        row["nullable"] = nullable
    if "tag" in field:
        row["tag"], row["tagged"] = field["tag"], _versions(field["taggedVersions"])
    inner = field.get("fields") or structs.get(row["type"])
    if inner is not None:
        row["fields"] = [_row(each, structs) for each in inner]
    return row | _default(field, row)


def _name(field: Json) -> str:
    name: str = field["name"]
    return snake_case(name.removesuffix("Ms") if name in TIMES | DATES else name)


def _type(field: Json) -> str:
    name, kind = field["name"], field["type"].removeprefix("[]")
    if name in ERRORS:
        return "error_code"
    if name in TIMES:
        return {"int32": "timedelta_i32", "int64": "timedelta_i64"}[kind]
    return "datetime_i64" if name in DATES else kind


def _nullable(field: Json, row: Json) -> list[int] | None:
    if row["type"] in NEVER_NULL and not row.get("array"):
        return None
    if row["type"] == "datetime_i64" and str(field.get("default")) == "-1":
        return [0]
    if "tag" in field and field.get("ignorable") and "default" not in field and row["type"] in PRIMITIVES:
        return None if row.get("array") else _versions(field["taggedVersions"])
    return _versions(field["nullableVersions"]) if "nullableVersions" in field else None


def _default(field: Json, row: Json) -> Json:
    default = field.get("default")
    if row.get("array"):
        # A primitive array is empty unless it is given; kio wants any other array to be given.
        if default == "null" and "fields" not in row:
            return {"default": None}
        return {"default": []} if "fields" not in row or "tag" in row else {}
    if default == "null" or (row["type"] == "datetime_i64" and str(default) == "-1"):
        return {"default": None}
    if "fields" in row:
        plain = all(
            "default" in each and "fields" not in each and not each.get("array") for each in row["fields"]
        )
        return (
            {"default": {} if plain else None} if "tag" in row and (plain or field.get("ignorable")) else {}
        )
    if default is None:
        zero = 0 if row["type"] in NEVER_NULL else None
        return {"default": zero} if "tag" in row and field.get("ignorable") else {}
    if row["type"] == "bool":
        return {"default": str(default).lower() == "true"}
    return {"default": default if row["type"] == "string" else int(str(default), 0)}


def _is_plain(rows: Sequence[Json]) -> bool:
    """Whether each field is one value with a default."""
    return all("default" in row and "fields" not in row and not row.get("array") for row in rows)


def _versions(text: str) -> list[int]:
    """[first] for Kafka's "6+", [first, last] for "0-5" and "3", [] for "none"."""
    if text == "none":
        return []
    if text.endswith("+"):
        return [int(text[:-1])]
    first, _, last = text.partition("-")
    return [int(first), int(last or first)]


def snake_case(name: str) -> str:
    """A name of Kafka's as kio writes it: "ISRReplicas" is isr_replicas, "Type" is type_."""
    parts = re.sub(r"(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])|(?<=[0-9])(?=[A-Z][a-z])", "_", name)
    formatted = parts.lower()
    return f"{formatted}_" if formatted in dir(builtins) else formatted


def as_text(schema: Json) -> str:
    """A schema as it is kept, with a line for each field."""
    return json.dumps(_folded(schema), indent=1).replace('"<', "").replace('>"', "").replace("\\", "") + "\n"


def _folded(value: Any) -> Any:
    """Rows without inner rows become texts, so that each stays in one line."""
    if isinstance(value, list) and not any(isinstance(each, dict) for each in value):
        return f"<{json.dumps(value)}>"
    if isinstance(value, list):
        return [_folded(each) for each in value]
    if isinstance(value, dict) and "type" in value and "fields" not in value:
        return f"<{json.dumps(value)}>"
    return {key: _folded(each) for key, each in value.items()} if isinstance(value, dict) else value


def main(names: Sequence[str]) -> None:
    found = schemas(clients_jar())
    for name in [name for name in names if name != METADATA] or [path.stem for path in KEPT.glob("*.json")]:
        (KEPT / f"{name}.json").write_text(as_text(found[name]), encoding="utf-8")
    if not names or METADATA in names:
        for name, schema in record_schemas(metadata_jar()).items():
            (KEPT_RECORDS / f"{name}.json").write_text(as_text(schema), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
