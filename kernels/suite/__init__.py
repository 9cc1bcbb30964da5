"""The suite: one file per kernel, discovered."""
