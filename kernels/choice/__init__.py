"""Which shape of covariance annotations speak for: how well each predicts those it has not seen."""
