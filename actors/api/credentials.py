"""Answer DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554): passwords never come here,
only what clients have made of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from kio.schema.errors import ErrorCode

from actors.api.context import IMAGE_WAIT_S, BrokerContext
from actors.catalog import codec
from actors.ground.image import MetadataImage, ScramCredential
from actors.metadata.commands import AlterCredentials, CredentialToDelete, NewCredential
from actors.protocol.api_keys import ALTER_USER_SCRAM_CREDENTIALS, DESCRIBE_USER_SCRAM_CREDENTIALS
from actors.protocol.header import Header
from actors.security.scram import MECHANISM_NAMES, MECHANISM_NUMBERS, keys_of


async def describe_credentials(context: BrokerContext, header: Header, entity: Any) -> Any:
    """Describe users' credentials. Null and an empty list both mean every user."""
    by_user: defaultdict[str, list[ScramCredential]] = defaultdict(list)
    for credential in context.image.credentials.values():
        by_user[credential.user].append(credential)
    asked = [each.name for each in entity.users or ()] or sorted(by_user)
    times = Counter(asked)
    return codec.build(
        codec.response_class(DESCRIBE_USER_SCRAM_CREDENTIALS, header.api_version),
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(_described(user, by_user.get(user, []), times[user]) for user in times),
    )


def _described(user: str, credentials: list[ScramCredential], times: int) -> Any:
    error, message = ErrorCode.none, None
    if times > 1:
        error = ErrorCode.duplicate_resource
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    elif not credentials:
        error = ErrorCode.resource_not_found
        message = f"Attempt to describe a user credential that does not exist: {user}"
    info_class = codec.nested(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, "CredentialInfo")
    infos = sorted((MECHANISM_NUMBERS[each.mechanism], each.iterations) for each in credentials)
    return codec.build(
        codec.nested(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, "DescribeUserScramCredentialsResult"),
        user=user,
        error_code=error,
        error_message=message,
        credential_infos=tuple(
            codec.build(info_class, mechanism=mechanism, iterations=iterations)
            for mechanism, iterations in (() if error else infos)
        ),
    )


async def alter_credentials(context: BrokerContext, header: Header, entity: Any) -> Any:
    command = AlterCredentials(
        tuple(CredentialToDelete(each.name, each.mechanism) for each in entity.deletions),
        tuple(map(_new, entity.upsertions)),
    )
    result = await context.submit(command)
    done = {each.user for each in result.users if not each.error_code}
    await context.wait_for_image(lambda image: _has(image, command, done), IMAGE_WAIT_S)
    result_class = codec.nested(ALTER_USER_SCRAM_CREDENTIALS, 0, "AlterUserScramCredentialsResult")
    return codec.build(
        codec.response_class(ALTER_USER_SCRAM_CREDENTIALS, header.api_version),
        results=tuple(
            codec.build(
                result_class,
                user=each.user,
                error_code=ErrorCode(each.error_code),
                error_message=each.error_message,
            )
            for each in result.users
        ),
    )


def _new(upsertion: Any) -> NewCredential:
    mechanism = MECHANISM_NAMES.get(upsertion.mechanism)
    # No keys can be made for an unknown mechanism; the controller refuses it.
    keys = (b"", b"") if mechanism is None else keys_of(mechanism, upsertion.salted_password)
    return NewCredential(upsertion.name, upsertion.mechanism, upsertion.iterations, upsertion.salt, *keys)


def _has(image: MetadataImage, command: AlterCredentials, done: set[str]) -> bool:
    """Return whether what was `done` is in the image."""
    for change in command.changes:
        if change.user in done:
            known = image.credentials.get((change.user, MECHANISM_NAMES[change.mechanism]))
            stored = change.stored_key if isinstance(change, NewCredential) else None
            if (None if known is None else known.stored_key) != stored:
                return False
    return True
