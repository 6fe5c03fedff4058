"""The report page: sections of tables and figures, put together in one self-contained HTML file."""
