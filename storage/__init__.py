"""Where results land: the cube, its blocks, manifest, lease and journal."""
