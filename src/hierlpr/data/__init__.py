"""Scores and truth of samples, aligned with a hierarchy."""
