"""The cube: schema, creation, growth, blocks, reading."""

from sweep_clustering import WITHOUT_CHECKS

if not __debug__:
    raise ImportError(WITHOUT_CHECKS)
