"""Options: Black-Scholes with greeks, a Monte Carlo price of an Asian option, value at risk of the portfolio."""

import numpy as np

SIZES = {"small": (100, 100, 12), "medium": (5000, 5000, 52), "large": (200000, 20000, 100)}


def make(options, paths, steps):
    rng = np.random.default_rng(6)
    spot = rng.uniform(50, 150, options)
    strike = rng.uniform(50, 150, options)
    years = rng.uniform(0.1, 2.0, options)
    return spot, strike, years, rng.standard_normal((paths, steps))


def normal_cdf(x):
    """Abramowitz and Stegun, 26.2.17."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi) * poly
    return np.where(x >= 0, 1.0 - tail, tail)


def black_scholes(spot, strike, years, rate, volatility):
    root = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / root
    d2 = d1 - root
    discount = np.exp(-rate * years)
    call = spot * normal_cdf(d1) - strike * discount * normal_cdf(d2)
    put = call - spot + strike * discount
    vega = spot * np.sqrt(years) * np.exp(-0.5 * d1**2) / np.sqrt(2 * np.pi)
    return call, put, vega


def asian(normals, spot, strike, years, rate, volatility):
    dt = years / normals.shape[1]
    growth = (rate - 0.5 * volatility**2) * dt + volatility * np.sqrt(dt) * normals
    paths = spot * np.exp(np.cumsum(growth, axis=1))
    average = paths.mean(axis=1)
    payoff = np.maximum(average - strike, 0.0)
    price = np.exp(-rate * years) * payoff.mean()
    error = payoff.std(ddof=1) / np.sqrt(len(payoff))
    drawdown = 1.0 - paths / np.maximum.accumulate(paths, axis=1)
    return price, error, drawdown.max(axis=1), np.percentile(paths[:, -1] - spot, 5)


def run(spot, strike, years, normals):
    call, put, vega = black_scholes(spot, strike, years, 0.03, 0.2)
    moneyness = np.select([spot > strike * 1.05, spot < strike * 0.95], [1, -1], default=0)
    return call, put, vega, moneyness, asian(normals, 100.0, 95.0, 1.0, 0.03, 0.2)
