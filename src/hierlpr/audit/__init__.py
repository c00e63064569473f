"""Certify calls on a population without truth, by checking a few samples of it."""
