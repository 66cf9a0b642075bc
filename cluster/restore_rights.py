"""Make commands of the users and ACLs of a backup, for a controller that may have users of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from actors.ground.acl import Acl
from actors.metadata.commands import AlterCredentials, CreateAcls, NewCredential
from actors.metadata.records import ACL, SCRAM_CREDENTIAL, ScramCredentialValue
from actors.security.scram import MECHANISM_NUMBERS

ENTRIES_A_COMMAND: Final = 1_000
Records = Iterable[tuple[Any, Any]]
"""The records of a controller: (key, value) of each."""


def commands_of(backup: Records, present: Records) -> Iterator[CreateAcls | AlterCredentials]:
    """Yield the commands that bring the backup's users and ACLs into a controller that holds `present`. A
    user that is known there keeps its password: the administrator's is a secret of the new tier's
    directory."""
    known = {key[2] for key, _ in present if key[0] == SCRAM_CREDENTIAL}
    acls: list[Acl] = []
    credentials: dict[str, list[NewCredential]] = {name: [] for name in MECHANISM_NUMBERS}
    for key, value in backup:
        if key[0] == ACL:
            acls.append(Acl(*key[2]))
        elif key[0] == SCRAM_CREDENTIAL and key[2] not in known:
            user, mechanism, made = key[2], key[3], ScramCredentialValue(*value)
            new = NewCredential(
                user,
                MECHANISM_NUMBERS[mechanism],
                made.iterations,
                made.salt,
                made.stored_key,
                made.server_key,
            )
            credentials[mechanism].append(new)
    for batch in _batches(acls):
        yield CreateAcls(tuple(batch))
    # One mechanism comes after the other: a command takes one credential of a user.
    for of_mechanism in credentials.values():
        for some in _batches(of_mechanism):
            yield AlterCredentials((), tuple(some))


def _batches(entries: Iterable[Any]) -> Iterator[list[Any]]:
    left = iter(entries)
    while batch := list(islice(left, ENTRIES_A_COMMAND)):
        yield batch


def problem(result: Any) -> str | None:
    """Return the first refusal in the answer to one of these commands, in words; None if there is none."""
    for entry in result[0] if isinstance(result[0], tuple) else (result,):
        if entry.error_code:
            return str(entry.error_message or entry.error_code)
    return None
