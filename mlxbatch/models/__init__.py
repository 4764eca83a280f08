"""Where models come from, and whether they are whole; free of mlx."""
