"""`python -m pipeline`, the same as `sweep`."""

from __future__ import annotations

from sweep_clustering import main

if __name__ == "__main__":
    main()
