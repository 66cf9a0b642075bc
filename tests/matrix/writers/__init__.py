"""Real producers as programs, as `bench.clients` and `tests/matrix/members` are real consumers.

A program takes TOPIC and settings as name=value. Commands come on standard input, one a line:

    write CODEC BYTES PARTITION    write one record whose value has so many bytes, compressed by none, gzip,
                                   snappy, lz4 or zstd
    close                          close the producer and end; so does the end of input

Events leave on standard output as the members' do: `written` ("partition", "offset", "sha256" of the value)
when the record is acknowledged, `refused` ("code": Kafka's number of the error, "error") when it is not,
`closed`, `failed`. No program holds a record back because of its size: what is too large is the server's to
say.
"""
