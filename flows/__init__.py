"""When, where, and where the results go."""
