"""Prices and sensitivities of a million European options by Black and Scholes, in plain NumPy and SciPy."""

import numpy as np
from scipy.special import ndtr


def load(count=1_000_000):
    """Spot prices, strikes, times to expiry and volatilities."""
    rng = np.random.default_rng(11)
    spot = rng.uniform(10.0, 60.0, count)
    strike = rng.uniform(15.0, 50.0, count)
    years = rng.uniform(0.1, 3.0, count)
    volatility = rng.uniform(0.1, 0.6, count)
    return spot, strike, years, volatility


def moneyness(spot, strike, years, volatility, rate):
    """The two arguments of the normal distribution."""
    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / spread
    return d1, d1 - spread


def price(spot, strike, years, volatility, rate=0.03):
    """Prices of calls and puts."""
    d1, d2 = moneyness(spot, strike, years, volatility, rate)
    discounted = strike * np.exp(-rate * years)
    call = spot * ndtr(d1) - discounted * ndtr(d2)
    return call, call - spot + discounted


def greeks(spot, strike, years, volatility, rate=0.03):
    """Gamma and vega."""
    d1, _ = moneyness(spot, strike, years, volatility, rate)
    density = np.exp(-0.5 * d1 * d1) * 0.3989422804014327
    root = np.sqrt(years)
    return density / (spot * volatility * root), spot * density * root


def payoff(spot, strike, call):
    """Profit at expiry if the spot price rises by a third, and whether it is a loss all the same."""
    worth = np.maximum(spot * (4.0 / 3.0) - strike, 0.0) - call
    return worth, worth < 0.0


def main():
    spot, strike, years, volatility = load()
    call, put = price(spot, strike, years, volatility)
    gamma, vega = greeks(spot, strike, years, volatility)
    worth, loss = payoff(spot, strike, call)
    print(f"{spot.size} options, mean call {call.mean():.4f}, mean put {put.mean():.4f}")
    print(
        f"mean gamma {gamma.mean():.5f}, mean vega {vega.mean():.4f}, losses {loss.mean():.1%}, mean {worth.mean():.3f}"
    )


if __name__ == "__main__":
    main()
