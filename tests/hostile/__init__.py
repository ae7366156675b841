"""Servers on the loopback that mean harm: a broker, a ZooKeeper server, an exporter and a token endpoint.

`python -m tests.hostile` runs all of them in a process of its own. `python -m tests.hostile.operator_process` is the
operator with its real clients, over an API server in memory, and reports its memory and its observations.
"""
