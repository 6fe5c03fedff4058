"""What choosing pairs gains over drawing them, on the page, in text and in files."""
