"""The fleet pipeline."""
