"""Committed offsets, set and put back, and the consumers that are stopped meanwhile."""
