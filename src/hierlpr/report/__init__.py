"""Reports: decisions and metrics as one self-contained HTML file."""

from hierlpr.report.report_page import Report, write_report

__all__ = ["Report", "write_report"]
