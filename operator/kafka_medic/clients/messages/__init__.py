"""Messages of Kafka's protocol that kafka-python does not bring, in the form in which it reads its own."""
