"""What is wrong? Detectors: pure functions from Snapshots to Findings."""
