"""The report: page, tables, text, and the comparison of cubes."""
