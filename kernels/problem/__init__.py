"""What is solved: features and annotation layers as kernels see them."""
