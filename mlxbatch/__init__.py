"""Batch speech and audio work over whole directories, on MLX."""

__version__ = "0.1.0"
