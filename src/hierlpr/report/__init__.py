"""Reports: decisions and metrics as one self-contained HTML file."""

from hierlpr.report.discoveries import write_discoveries_report
from hierlpr.report.report_page import Report, write_report

__all__ = ["Report", "write_discoveries_report", "write_report"]
