"""Operations along axes: sums, orders, quantiles, statistics, histograms, samples."""
