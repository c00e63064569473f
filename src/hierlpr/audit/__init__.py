"""Certify calls on a population without truth, by checking a few samples of it."""

from hierlpr.audit.session import Audit, load_audit, start_audit

__all__ = ["Audit", "load_audit", "start_audit"]
