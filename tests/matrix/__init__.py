"""Real clients against a real tier: client x protocol x story, each client a process of its own.

`python -m tests.matrix --markdown` runs it all and writes CLIENTS.md.

A client stands in the matrix in several versions, old and new: `builds.py` makes each apart from the others.
Its producer is a program too: `writers`.

A member's program takes TOPIC[,TOPIC...] or pattern:REGEX and then settings as name=value: the Java
consumer's names, which each program translates, `commit.each.poll=true` (every poll that brought records is
followed by a synchronous commit) and `tell.digests=true`. Commands come on standard input, one a line:

    commit      commit what was polled
    nap MS      do not poll for so long, as if a record took long to process, or until the next command
    wake        end a nap
    close       close the consumer and end; so does the end of input

Events leave on standard output, one JSON object a line, with "at" (ms of the wall clock):

    assigned, revoked, lost   "partitions": ["topic-0", ...]; revoked is told before the partitions are let go
    records                   "partition": "topic-0", "offsets": [...], if asked "sha256": [...]
    committed                 "offsets": {"topic-0": 17}, acknowledged by the server
    refused                   "error": why a commit was not taken; the member goes on
    napped, closed
    failed                    "error"; the program ends
"""
