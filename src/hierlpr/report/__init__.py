"""Decisions and metrics -> one self-contained HTML file that answers, shows and explains."""

from hierlpr.report.page import Report, write_report

__all__ = ["Report", "write_report"]
