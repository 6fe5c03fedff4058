"""Bundles and boards of cubes, their citations and verification, and several cubes joined."""
