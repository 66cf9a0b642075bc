"""The page of all APIs that are served, APIS.md: what ApiVersions tells clients, and who answers.

`python -m actors.catalog.page` prints the page; a test fails when the file is stale.
"""

from __future__ import annotations

from actors.catalog.api import Api
from actors.catalog.table import APIS, name_of

HEADING = """\
# APIs

Made by `python -m actors.catalog.page > actors/catalog/APIS.md`; a test compares them.

Requests of Kafka's protocol that a node answers, in the versions that ApiVersions tells clients (a name in
parentheses: it is answered, but not told of, as in Kafka). Versions that are told of and not answered, as in
Kafka, close the connection. A coordinator leads the offsets partition of the group, or of the transactional
id.

| key | API | versions | flexible since | answered by |
|---:|---|---|---|---|
"""


def markdown() -> str:
    """The page: one table, in the order of the keys."""
    return HEADING + "".join(map(_row, APIS.values()))


def _row(api: Api) -> str:
    one = api.min_version == api.max_version
    versions = f"{api.min_version}" if one else f"{api.min_version}-{api.max_version}"
    if api.first_told != api.min_version:
        versions += f" (told from {api.first_told})"
    since = "never" if api.flexible_since > api.max_version else api.flexible_since
    server = api.served_by.value
    if api.coordinated is not None and server == "broker":
        server = "broker or coordinator"
    name = name_of(api.key) if api.announced else f"({name_of(api.key)})"
    return f"| {api.key} | {name} | {versions} | {since} | {server} |\n"


if __name__ == "__main__":
    print(markdown(), end="")
