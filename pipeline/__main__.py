"""`python -m pipeline`, the same as `sweep`."""

from sweep_clustering import main

if __name__ == "__main__":
    main()
