"""Clustering problems: features and annotation layers for the kernels."""
