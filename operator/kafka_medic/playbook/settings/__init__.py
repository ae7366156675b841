"""Dynamic settings: min.insync.replicas of topics and of all brokers, and throttles that were left behind."""
