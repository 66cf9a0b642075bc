"""Our tier beside others that speak Kafka's group protocols: same machine, same load, same run.

Reading order: `plan` (what is measured, and how it is said), `peer` (who is measured), `works/` (what each is
made to do), `load` and `generator` (the traffic), `runner` (the order of it all), `table` and `plots`.
"""
