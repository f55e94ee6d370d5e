"""Module paths of tinygrad programs."""
