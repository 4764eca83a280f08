"""Recordings put out while they are heard: read block by block, heard piece by piece, told in the order of time."""
