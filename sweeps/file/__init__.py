"""The sweep file: from TOML to a checked record."""
