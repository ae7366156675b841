"""What a Kafka cluster is, as plain immutable values. Pure: no clock, no I/O, no logging."""
