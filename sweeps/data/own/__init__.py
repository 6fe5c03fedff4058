"""Tables of the user: any format, any columns."""
