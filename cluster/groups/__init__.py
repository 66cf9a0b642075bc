"""Groups of this tier or of any Kafka, through the Kafka protocol and nothing else.

`connection` reaches brokers and coordinators, `requests` asks them, `describe` and `reset` are what the
command line shows and does, `transfer` moves committed offsets and whole dumps.
"""
