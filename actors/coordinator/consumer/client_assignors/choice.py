"""Which of the members' assignors a group uses (A4). Pure."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from actors.ground.records import ClientAssignor
from actors.protocol.errors import GroupError

ASSIGNORS_MAX: Final = 32
"""How many assignors one member may bring."""
NAME_CHARACTERS_MAX: Final = 249
"""A name may have as many as a topic's: errors repeat the names."""
Brought = tuple[ClientAssignor, ...]
"""What one member brings, in its order of preference."""


def validate(brought: Brought) -> None:
    """Check a member's assignors by themselves. Raises GroupError(invalid_request)."""
    if len(brought) > ASSIGNORS_MAX:
        raise _invalid(f"ClientAssignors has {len(brought)} assignors, {ASSIGNORS_MAX} are the most.")
    seen = set()
    for name, low, high, _, version, _ in brought:
        if not name.strip():
            raise _invalid("ClientAssignors has an assignor without a name.")
        if len(name) > NAME_CHARACTERS_MAX:
            raise _invalid(f"ClientAssignors has a name of more than {NAME_CHARACTERS_MAX} characters.")
        if name in seen:
            raise _invalid(f"ClientAssignors names {name} twice.")
        seen.add(name)
        if not 0 <= low <= high:
            raise _invalid(f"ClientAssignor {name} supports the versions {low} to {high}, which are none.")
        if not low <= version <= high:
            raise _invalid(f"ClientAssignor {name} has metadata of version {version}, not {low} to {high}.")


def common(of_members: Collection[Brought]) -> set[str]:
    """Return the assignors that all members support, in versions that overlap."""
    ranges: dict[str, tuple[int, int, int]] = {}
    for brought in of_members:
        for name, low, high, *_ in brought:
            number, lowest, highest = ranges.get(name, (0, low, high))
            ranges[name] = number + 1, max(low, lowest), min(high, highest)
    size = len(of_members)
    return {name for name, (number, low, high) in ranges.items() if number == size and low <= high}


def choice(of_members: Collection[Brought]) -> str | None:
    """Return the assignor with the most votes: each member votes for the first of its own that all support.
    Of equals it is the first by name. None: there is none that all support."""
    supported = common(of_members)
    if not supported:
        return None
    votes = Counter(next(each.name for each in brought if each.name in supported) for brought in of_members)
    return min(votes, key=lambda name: (-votes[name], name))


def refuse_unsupported(brought: Brought, others: Mapping[str, Brought]) -> None:
    """Refuse assignors that leave the group none that all support. Raises
    GroupError(unsupported_assignor)."""
    of_members = [*others.values(), brought]
    if common(of_members):
        return
    supported = ", ".join(sorted(common(list(others.values())))) or "none"
    raise GroupError(
        ErrorCode.unsupported_assignor,
        f"None of the ClientAssignors {', '.join(each.name for each in brought)} is supported by all members"
        f" in a common version. Supported by the others: {supported}.",
    )


def asks_anew(before: Brought, after: Brought, name: str) -> bool:
    """Whether a member's assignor `name` asks for a new assignment: by new metadata, or by a reason that it
    did not have before. Reason 0 asks for nothing."""
    old = next((each for each in before if each.name == name), None)
    new = next((each for each in after if each.name == name), None)
    if old is None or new is None:
        return old is not new
    has_new_reason = new.reason not in (0, old.reason)
    return has_new_reason or (new.version, new.metadata) != (old.version, old.metadata)


def _invalid(message: str) -> GroupError:
    return GroupError(ErrorCode.invalid_request, message)
