"""Everything a sweep runs on: data sets, scaled or drawn."""
