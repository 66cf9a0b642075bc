"""Files of records of groups as Kafka keeps them in `__consumer_offsets`: `dump` reads and writes one,
`json_form` is what it looks like as text."""
