"""Make the page of all APIs that are served, APIS.md: keys and versions, as ApiVersions tells them to
clients.

`python -m actors.protocol.apis_page` prints the page; a test fails when the file is stale.
"""

from __future__ import annotations

from actors.protocol.versions import VERSIONS, ApiRange

HEADING = """\
# APIs

Made by `python -m actors.protocol.apis_page > actors/protocol/APIS.md`; a test compares them.

Requests of Kafka's protocol that a node answers, in the versions that ApiVersions tells clients.

| key | API | versions |
|---:|---|---|
"""


def markdown() -> str:
    """Return the page: one table, in the order of the keys."""
    rows = (f"| {key} | {_name(api)} | {_versions(api)} |\n" for key, api in sorted(VERSIONS.items()))
    return HEADING + "".join(rows)


def _name(api: ApiRange) -> str:
    return "".join(part.capitalize() for part in api.name.split("_"))


def _versions(api: ApiRange) -> str:
    one = api.min_version == api.max_version
    return f"{api.min_version}" if one else f"{api.min_version}-{api.max_version}"


if __name__ == "__main__":
    print(markdown(), end="")
