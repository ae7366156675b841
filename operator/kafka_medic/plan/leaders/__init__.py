"""Who leads: preferred leaders even over all brokers, then even for each topic."""
