"""The cube: schema, creation, growth, blocks, reading."""
