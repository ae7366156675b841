"""kafka-medic: names what is wrong with a Kafka cluster and runs guarded, approved playbooks.

The tree reads as the loop runs: observe -> diagnose -> guard -> plan -> playbook -> actuate, with `cluster` and
`resources` below them all and `controller` and `cli` above. docs/design/0001-rooms-and-direction.md says what each
room may import; the import contracts in pyproject.toml hold it to that.
"""
