"""Which model wins: scores where all models have them, ranks over data sets, and what tests say of them."""
