"""Readers of weight files: headers at once, each weight when it is asked for. Nothing in a file is ever run."""
