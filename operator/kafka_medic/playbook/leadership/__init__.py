"""Who leads: preferred leaders elected, the order of replicas changed, brokers drained of leaderships and back."""
