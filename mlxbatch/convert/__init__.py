"""From published checkpoints to model directories that mlx can load."""
