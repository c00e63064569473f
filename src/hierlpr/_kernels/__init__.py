"""Compiled loops: arrays in, arrays out; nothing here knows about labels or files."""
