"""Functions that libraries call, and functions that call libraries: SciPy, pandas, xarray, scikit-learn.

Where a program hands a function of the user's to a library, that one is marked.
"""

import math

import numpy as np

from never_slower_programs import Family

program = Family()


def random(*shape):
    return np.random.default_rng(31).random(shape)


def gaussian(x):
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


@program(lambda n: (n,), 1, 5, 150, 800, marked="gaussian", needs=("scipy",))
def quadratures(n):
    from scipy.integrate import quad

    return [quad(gaussian, -1.0 - k * 0.01, 1.0)[0] for k in range(n)]


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@program(lambda n: (np.full(n, 1.3),), 2, 2, 5, 12, marked="rosenbrock", needs=("scipy",))
def minimization(x0):
    from scipy.optimize import minimize

    return minimize(rosenbrock, x0, method="BFGS", options={"maxiter": 1 if len(x0) == 2 else 40}).x


def lorenz(t, y):
    return np.array([10.0 * (y[1] - y[0]), y[0] * (28.0 - y[2]) - y[1], y[0] * y[1] - 8.0 / 3.0 * y[2]])


@program(lambda t: (t,), 0.01, 0.05, 2.0, 15.0, marked="lorenz", needs=("scipy",))
def ode_of_arrays(t):
    from scipy.integrate import solve_ivp

    return solve_ivp(lorenz, (0.0, t), [1.0, 1.0, 1.0]).y


def oscillator(t, y):
    return [y[1], -y[0] - 0.1 * y[1]]


@program(lambda t: (t,), 0.1, 1.0, 25.0, 150.0, marked="oscillator", needs=("scipy",))
def ode_of_lists(t):
    from scipy.integrate import solve_ivp

    return solve_ivp(oscillator, (0.0, t), [1.0, 0.0]).y


def heat(t, u):
    du = np.empty_like(u)
    du[1:-1] = u[2:] - 2 * u[1:-1] + u[:-2]
    du[0] = u[1] - u[0]
    du[-1] = u[-2] - u[-1]
    return du


@program(lambda n: (random(n),), 5, 20, 10000, 30000, marked="heat", needs=("scipy",))
def ode_of_a_rod(u):
    from scipy.integrate import solve_ivp

    return solve_ivp(heat, (0.0, 1.0), u).y[:, -1]


def decay(t, a, b, c):
    return a * np.exp(-b * t) + c


@program(lambda n: (np.linspace(0, 4, n), 2.5 * np.exp(-1.3 * np.linspace(0, 4, n)) + 0.5), 8, 20, 5000, 30000,
         marked="decay", needs=("scipy",))  # fmt: skip
def curve(t, y):
    from scipy.optimize import curve_fit

    return curve_fit(decay, t, y, p0=(1.0, 1.0, 0.0))[0]


def spread(window):
    return window.max() - window.min()


@program(lambda n: (random(n, n),), 3, 8, 30, 70, marked="spread", needs=("scipy",))
def filtered_image(image):
    from scipy.ndimage import generic_filter

    return generic_filter(image, spread, size=3)


def root(x):
    return x * x * x - 2.0 * x - 5.0


@program(lambda n: (n,), 1, 2, 150, 1000, marked="root", needs=("scipy",))
def roots(n):
    from scipy.optimize import brentq

    return [brentq(root, 1.0 + k * 1e-4, 3.0) for k in range(n)]


def frame(n):
    import pandas as pd

    x = random(n, 3) * 10
    keys = np.random.default_rng(1).integers(0, 10, n)
    return (pd.DataFrame({"k": keys, "a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}),)


@program(frame, 10, 20, 30000, 200000, needs=("pandas",))
def pandas_pipeline(df):
    d = df[df["a"] > 2.0].copy()
    d["logb"] = np.log1p(d["b"])
    d["z"] = (d["c"] - d["c"].mean()) / d["c"].std()
    return d.groupby("k")[["logb", "z"]].mean()


@program(frame, 10, 50, 50000, 400000, needs=("pandas",))
def pandas_column_z_score(df):
    return df[["a", "b", "c"]].apply(lambda column: (column - column.mean()) / column.std())


@program(lambda n: (frame(n)[0]["a"],), 10, 50, 200000, 1500000, needs=("pandas",))
def pandas_series_z_score(s):
    return (s - s.mean()) / s.std()


@program(lambda n: (frame(n)[0]["a"],), 10, 100, 200000, 1500000, needs=("pandas",))
def series_as_array_z_score(s):
    x = s.to_numpy()
    return (x - x.mean()) / x.std()


def row_norm(row):
    return np.sqrt((row * row).sum())


@program(lambda n: (frame(n)[0][["a", "b", "c"]],), 10, 20, 400, 3000, marked="row_norm", needs=("pandas",))
def pandas_raw_rows(df):
    return df.apply(row_norm, axis=1, raw=True)


def weighted_row(row):
    return row["a"] * 2.0 + row["b"] - row["c"]


@program(lambda n: (frame(n)[0][["a", "b", "c"]],), 10, 30, 400, 3000, marked="weighted_row", needs=("pandas",))
def pandas_rows_as_series(df):
    return df.apply(weighted_row, axis=1)


def rolling_range(x):
    return np.sqrt(((x - x.mean()) ** 2).mean())


@program(lambda n: (frame(n)[0]["a"],), 12, 30, 200, 1500, marked="rolling_range", needs=("pandas",))
def pandas_rolling(s):
    return s.rolling(7).apply(rolling_range, raw=True)


def trimmed(x):
    return x[(x > x.quantile(0.1)) & (x < x.quantile(0.9))].mean()


@program(frame, 20, 50, 3000, 60000, marked="trimmed", needs=("pandas",))
def pandas_groups(df):
    return df.groupby("k")["a"].agg(trimmed)


def data_array(n):
    import xarray as xr

    return (xr.DataArray(random(n, n), dims=("y", "x")),)


def detrended(x):
    return (x - x.mean(axis=-1, keepdims=True)) / (x.std(axis=-1, keepdims=True) + 1e-9)


@program(data_array, 4, 12, 300, 1200, marked="detrended", needs=("xarray",))
def xarray_apply(a):
    import xarray as xr

    return xr.apply_ufunc(detrended, a, input_core_dims=[["x"]], output_core_dims=[["x"]])


@program(data_array, 4, 12, 300, 1200, needs=("xarray",))
def xarray_direct(a):
    return ((a - a.mean("x")) / (a.std("x") + 1e-9)).max("y")


def log_features(x):
    return np.log1p(np.abs(x)) * x


@program(lambda n: (random(n, 4),), 4, 20, 40000, 500000, marked="log_features", needs=("sklearn",))
def sklearn_transformer(x):
    from sklearn.preprocessing import FunctionTransformer

    return FunctionTransformer(log_features).fit_transform(x)


def kernel(a, b):
    return np.exp(-((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=-1))


@program(lambda n: (random(n, 3), random(n)), 6, 15, 100, 300, marked="kernel", needs=("sklearn",))
def sklearn_kernel_ridge(x, y):
    from sklearn.linear_model import Ridge

    return Ridge().fit(kernel(x, x), y).predict(kernel(x[:5], x))
