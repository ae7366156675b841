"""The factor-1 incident on real parts, step by step: what the demo shows and the end-to-end tests hold."""
