"""Statistics of a table with missing values: moments, correlations, outliers, regression, bootstrap."""

import numpy as np

SIZES = {"small": (100, 4), "medium": (5000, 8), "large": (200000, 10)}


def make(n, columns):
    rng = np.random.default_rng(9)
    table = rng.normal(size=(n, columns)) @ rng.normal(size=(columns, columns)) + rng.normal(size=columns)
    table[rng.random((n, columns)) < 0.02] = np.nan
    return table, rng.integers(0, n, (20, n))


def fill_missing(table):
    means = np.nanmean(table, axis=0)
    return np.where(np.isnan(table), means, table)


def standardise(table):
    return (table - table.mean(axis=0)) / table.std(axis=0)


def skewness(table):
    centred = table - table.mean(axis=0)
    m2 = np.mean(centred**2, axis=0)
    m3 = np.mean(centred**3, axis=0)
    return m3 / m2**1.5


def regression(table):
    design = np.column_stack((np.ones(len(table)), table[:, 1:]))
    coefficients, *_ = np.linalg.lstsq(design, table[:, 0], rcond=None)
    residuals = table[:, 0] - design @ coefficients
    return coefficients, 1.0 - np.var(residuals) / np.var(table[:, 0])


def run(table, draws):
    missing = np.isnan(table).sum(axis=0)
    table = fill_missing(table)
    z = standardise(table)
    outliers = np.any(np.abs(z) > 3.0, axis=1)
    kept = table[~outliers]
    covariance = np.cov(kept, rowvar=False)
    deviations = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(deviations, deviations)
    resampled = np.array([table[rows, 0].mean() for rows in draws])
    quantiles = np.percentile(table, [25, 50, 75], axis=0)
    spread = quantiles[2] - quantiles[0]
    return missing, skewness(z), correlation, regression(kept), resampled.std(), spread, np.ptp(table, axis=0)
