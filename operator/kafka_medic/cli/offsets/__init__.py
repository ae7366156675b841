"""`kafka-medic offsets`: what groups have committed, where it would better be, and setting it with a way back."""
