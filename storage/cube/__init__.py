"""The cube: schema, creation, growth, blocks, reading."""

from sweep_clustering.installation import WITHOUT_CHECKS

if not __debug__:
    raise ImportError(WITHOUT_CHECKS)
