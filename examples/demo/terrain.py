"""Shaded relief of an elevation model, in plain NumPy.

The model is matplotlib's sample of the Jacksboro fault. Slope, aspect and curvature come from finite differences; masked cells
are left out of a smoothing stencil.
"""

import numpy as np
from matplotlib.cbook import get_sample_data


def load(repeat=2):
    """Elevations in metres and the cell sizes; `repeat` tiles the model to make it larger."""
    with get_sample_data("jacksboro_fault_dem.npz") as model:
        elevation = np.asarray(model["elevation"], dtype=np.float64)
        dx, dy, south = float(model["dx"]), float(model["dy"]), float(model["ymin"])
    y = south + np.arange(elevation.shape[0]) * dy
    metres_y = 111200 * dy
    metres_x = 111200 * dx * float(np.cos(np.radians(y.mean())))
    rows = np.concatenate([elevation, elevation[::-1]] * repeat, axis=0)
    return np.concatenate([rows, rows[:, ::-1]] * repeat, axis=1), metres_x, metres_y


def gradient(z, dx, dy):
    """Central differences over the inner cells; the border keeps zero."""
    gx = np.zeros_like(z)
    gy = np.zeros_like(z)
    gx[:, 1:-1] = (z[:, 2:] - z[:, :-2]) / (2 * dx)
    gy[1:-1, :] = (z[2:, :] - z[:-2, :]) / (2 * dy)
    return gx, gy


def slope(z, dx, dy):
    """Steepness in degrees."""
    gx, gy = gradient(z, dx, dy)
    return np.arctan(np.sqrt(gx * gx + gy * gy)) * (180.0 / np.pi)


def hillshade(z, dx, dy, azimuth=315.0, altitude=45.0, exaggeration=2.0):
    """Brightness under a light from `azimuth` and `altitude`, between 0 and 1."""
    gx, gy = gradient(z, dx, dy)
    steep = np.arctan(exaggeration * np.sqrt(gx * gx + gy * gy))
    aspect = np.arctan2(-gx, gy)
    light = (360.0 - azimuth + 90.0) * (np.pi / 180.0)
    zenith = (90.0 - altitude) * (np.pi / 180.0)
    shade = np.cos(zenith) * np.cos(steep) + np.sin(zenith) * np.sin(steep) * np.cos(light - aspect)
    return np.clip(shade, 0.0, 1.0)


def curvature(z, dx, dy):
    """Laplacian of the elevation: positive in valleys."""
    out = np.zeros_like(z)
    middle = z[1:-1, 1:-1]
    across = (z[1:-1, 2:] - 2.0 * middle + z[1:-1, :-2]) / (dx * dx)
    along = (z[2:, 1:-1] - 2.0 * middle + z[:-2, 1:-1]) / (dy * dy)
    out[1:-1, 1:-1] = across + along
    return out


def smooth(z, mask, rounds=4):
    """Mean over the neighbours that are not masked, `rounds` times; masked cells keep their elevation."""
    weight = np.where(mask, 0.0, 1.0)
    for _ in range(rounds):
        total = z[1:-1, 1:-1] * weight[1:-1, 1:-1]
        count = weight[1:-1, 1:-1] + 1e-9
        total = total + z[:-2, 1:-1] * weight[:-2, 1:-1] + z[2:, 1:-1] * weight[2:, 1:-1]
        count = count + weight[:-2, 1:-1] + weight[2:, 1:-1]
        total = total + z[1:-1, :-2] * weight[1:-1, :-2] + z[1:-1, 2:] * weight[1:-1, 2:]
        count = count + weight[1:-1, :-2] + weight[1:-1, 2:]
        mean = total / count
        z = z.copy()
        z[1:-1, 1:-1] = np.where(mask[1:-1, 1:-1], z[1:-1, 1:-1], mean)
    return z


def water(z, level):
    """Cells below a level: the share of them is printed, which only the interpreter can do."""
    wet = z < level
    print(f"below {level:.0f} m: {wet.mean():.1%}")
    depth = np.where(wet, level - z, 0.0)
    return depth * depth


def main():
    z, dx, dy = load()
    steep = slope(z, dx, dy)
    mask = steep > 25.0
    smoothed = smooth(z, mask)
    shade = hillshade(smoothed, dx, dy)
    bend = curvature(smoothed, dx, dy)
    deep = water(z, 300.0)
    print(f"{z.shape[0]} x {z.shape[1]} cells, mean slope {steep.mean():.2f} degrees, mean shade {shade.mean():.4f}")
    print(f"curvature {bend.min():.4f} to {bend.max():.4f}, deepest {np.sqrt(deep.max()):.0f} m")
    return shade


if __name__ == "__main__":
    main()
