"""Voice activity detection: where somebody speaks, and where a recording may be cut."""
