"""The next questions: `sweep ask`, its files, and its session in a terminal."""
