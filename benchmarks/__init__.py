"""Measurements of mlxbatch, by itself and beside others. Each module with a `main` is run by `python -m`."""
