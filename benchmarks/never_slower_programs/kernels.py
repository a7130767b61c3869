"""Kernels of linear algebra, stencils and networks, as they stand in collections of scientific programs."""

import numpy as np

from never_slower_programs import Family

program = Family()


def random(*shape):
    return np.random.default_rng(sum(shape) + 11).random(shape)


def positive_definite(n):
    a = random(n, n)
    return a @ a.T + n * np.eye(n)


@program(lambda n: (positive_definite(n),), 4, 6, 30, 100, changes=True)
def cholesky(a):
    a[0, 0] = np.sqrt(a[0, 0])
    for i in range(1, a.shape[0]):
        for j in range(i):
            a[i, j] -= np.dot(a[i, :j], a[j, :j])
            a[i, j] /= a[j, j]
        a[i, i] -= np.dot(a[i, :i], a[i, :i])
        a[i, i] = np.sqrt(a[i, i])
    return a


@program(lambda n: (positive_definite(n),), 4, 6, 30, 90, changes=True)
def lu(a):
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, a.shape[0]):
            a[i, j] -= a[i, :i] @ a[:i, j]
    return a


@program(lambda n: (positive_definite(n), random(n)), 4, 6, 30, 90, changes=True)
def ludcmp(a, b):
    n = a.shape[0]
    x, y = np.zeros_like(b), np.zeros_like(b)
    for i in range(n):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, n):
            a[i, j] -= a[i, :i] @ a[:i, j]
    for i in range(n):
        y[i] = b[i] - a[i, :i] @ y[:i]
    for i in range(n - 1, -1, -1):
        x[i] = (y[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x, y


@program(lambda n: (1.5, random(n, n), random(n, n + 1)), 3, 6, 40, 100, changes=True)
def trmm(alpha, a, b):
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])
    b *= alpha
    return b


@program(lambda n: (positive_definite(n), random(n)), 4, 30, 1000, 4000)
def trisolv(lower, b):
    x = np.zeros_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - lower[i, :i] @ x[:i]) / lower[i, i]
    return x


@program(lambda n: (random(n, n + 2).T,), 3, 5, 30, 90, changes=True)
def gramschmidt(a):
    q, r = np.zeros_like(a), np.zeros((a.shape[1], a.shape[1]), a.dtype)
    for k in range(a.shape[1]):
        nrm = np.dot(a[:, k], a[:, k])
        r[k, k] = np.sqrt(nrm)
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, a.shape[1]):
            r[k, j] = np.dot(q[:, k], a[:, j])
            a[:, j] -= q[:, k] * r[k, j]
    return q, r


@program(lambda n: (np.arange(n, 2 * n) / (4.0 * n),), 4, 20, 500, 2500)
def durbin(r):
    y = np.empty_like(r)
    alpha = -r[0]
    beta = 1.0
    y[0] = -r[0]
    for k in range(1, r.shape[0]):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


@program(lambda n: (n if n < 30 else 100, random(n), random(n)), 6, 30, 10000, 150000, changes=True)
def jacobi_1d(steps, a, b):
    for _ in range(1, steps):
        b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = 0.33333 * (b[:-2] + b[1:-1] + b[2:])
    return a


@program(lambda n: (10, random(n, n), random(n, n)), 4, 20, 200, 600, changes=True)
def jacobi_2d(steps, a, b):
    for _ in range(1, steps):
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])
    return a


def sparse(rows):
    rng = np.random.default_rng(7)
    starts = np.arange(0, 8 * rows + 1, 8, dtype=np.uint32)
    return starts, rng.integers(0, rows, 8 * rows).astype(np.uint32), rng.random(8 * rows), rng.random(rows)


@program(sparse, 3, 20, 1200, 7000)
def spmv(starts, columns, values, x):
    y = np.empty(starts.size - 1, values.dtype)
    for i in range(starts.size - 1):
        where = columns[starts[i] : starts[i + 1]]
        v = values[starts[i] : starts[i + 1]]
        y[i] = v @ x[where]
    return y


@program(lambda n: (np.random.default_rng(8).integers(0, 256, n, dtype=np.uint8),), 4, 50, 2000, 10000)
def crc16(data, polynomial=0x8408):
    crc = 0xFFFF
    for b in data:
        cur = 0xFF & b
        for _ in range(8):
            if (crc & 0x0001) ^ (cur & 0x0001):
                crc = (crc >> 1) ^ polynomial
            else:
                crc >>= 1
            cur >>= 1
    crc = ~crc & 0xFFFF
    return (crc << 8) | ((crc >> 8) & 0xFF)


@program(lambda n: (bytes(range(256)) * n if n > 1 else b"abcdef",), 1, 2, 8, 40)
def crc16_of_bytes(data, polynomial=0x8408):
    crc = 0xFFFF
    for b in data:
        crc ^= b
        for _ in range(8):
            crc = (crc >> 1) ^ polynomial if crc & 1 else crc >> 1
    return crc ^ 0xFFFF


def self_energies(n):
    nkz, ne, nqz, nw, atoms, neighbours, norb = 2, n, 2, 2, n, 2, 3
    rng = np.random.default_rng(9)
    return (
        rng.integers(0, atoms, (atoms, neighbours)),
        rng.random((atoms, neighbours, 3, norb, norb)) + 0j,
        rng.random((nkz, ne, atoms, norb, norb)) + 1j,
        rng.random((nqz, nw, atoms, neighbours, 3, 3)) + 0.5j,
        np.zeros((nkz, ne, atoms, norb, norb), complex),
    )


@program(self_energies, 1, 1, 2, 4, changes=True)
def scattering_self_energies(index, dh, g, d, sigma):
    for k in range(g.shape[0]):
        for e in range(g.shape[1]):
            for q in range(d.shape[0]):
                for w in range(d.shape[1]):
                    for i in range(d.shape[-2]):
                        for j in range(d.shape[-1]):
                            for a in range(index.shape[0]):
                                for b in range(index.shape[1]):
                                    if e - w >= 0:
                                        hg = g[k, e - w, index[a, b]] @ dh[a, b, i]
                                        hd = dh[a, b, j] * d[q, w, a, b, i, j]
                                        sigma[k, e, a] += hg @ hd
    return sigma


@program(lambda n: (float(n), random(n, n)), 4, 12, 200, 400, changes=True)
def correlation(count, data):
    mean = np.mean(data, axis=0)
    deviation = np.std(data, axis=0)
    deviation[deviation <= 0.1] = 1.0
    data -= mean
    data /= np.sqrt(count) * deviation
    corr = np.eye(data.shape[1], dtype=data.dtype)
    for i in range(data.shape[1] - 1):
        corr[i + 1 :, i] = corr[i, i + 1 :] = data[:, i] @ data[:, i + 1 :]
    return corr


@program(lambda n: (float(n), random(n, n)), 4, 12, 200, 400, changes=True)
def covariance(count, data):
    data -= np.mean(data, axis=0)
    cov = np.zeros((data.shape[1], data.shape[1]), dtype=data.dtype)
    for i in range(data.shape[1]):
        cov[i:, i] = cov[i, i:] = data[:, i] @ data[:, i:] / (count - 1.0)
    return cov


@program(lambda n: (1.5, 1.2, random(n, n), random(n, n + 1), random(n + 1, n)), 4, 64, 200, 400, changes=True)
def gemm(alpha, beta, c, a, b):
    c[:] = alpha * a @ b + beta * c
    return c


@program(lambda n: (1.5, 1.2, random(n, n), random(n, n), random(n, n), random(n, n)), 4, 64, 200, 350, changes=True)
def two_products(alpha, beta, a, b, c, d):
    d[:] = alpha * a @ b @ c + beta * d
    return d


@program(lambda n: (random(n, n), random(n, n), random(n, n), random(n, n)), 4, 64, 180, 320)
def three_products(a, b, c, d):
    return a @ b @ c @ d


@program(lambda n: (random(n, n + 3), random(n + 3)), 4, 150, 1500, 3000)
def atax(a, x):
    return (a @ x) @ a


@program(lambda n: (random(n, n + 3), random(n + 3), random(n)), 4, 150, 1500, 3000)
def bicg(a, p, r):
    return r @ a, a @ p


@program(lambda n: (1.5, 1.2, random(n, n), random(n, n), random(n)), 4, 150, 800, 1500)
def gesummv(alpha, beta, a, b, x):
    return alpha * a @ x + beta * b @ x


@program(lambda n: (1.5, 1.2, random(n, n), *(random(n) for _ in range(8))), 4, 100, 600, 1200, changes=True)
def gemver(alpha, beta, a, u1, v1, u2, v2, w, x, y, z):
    a += np.outer(u1, v1) + np.outer(u2, v2)
    x += beta * y @ a + z
    w += alpha * a @ x
    return w


@program(lambda n: (1.5, 1.2, random(n, n), random(n, n)), 4, 6, 30, 90, changes=True)
def syrk(alpha, beta, c, a):
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, : i + 1] += alpha * a[i, k] * a[: i + 1, k]
    return c


@program(lambda n: (1.5, 1.2, random(n, n), random(n, n), random(n, n)), 4, 6, 25, 60, changes=True)
def symm(alpha, beta, c, a, b):
    n, m = c.shape
    tmp = np.empty((m,))
    c *= beta
    for i in range(n):
        for j in range(m):
            c[:i, j] += alpha * b[i, j] * a[i, :i]
            tmp[j] = b[:i, j] @ a[i, :i]
        c[i, :] += alpha * b[i, :] * a[i, i] + alpha * tmp
    return c


@program(lambda n: (random(n, n, 16), random(16, 16)), 3, 20, 120, 300, changes=True)
def doitgen(a, c4):
    r, q, p = a.shape
    a[:] = np.reshape(np.reshape(a, (r, q, 1, p)) @ c4, (r, q, p))
    return a


@program(lambda n: (2 if n < 30 else 4, random(n, n)), 5, 12, 60, 200, changes=True)
def adi(steps, u):
    n = u.shape[0]
    v, p, q = np.empty(u.shape), np.empty(u.shape), np.empty(u.shape)
    a, b, d = -0.5 * n, 1.0 + n, -0.25 * n
    for _ in range(steps):
        v[0, 1:-1] = 1.0
        p[1:-1, 0] = 0.0
        q[1:-1, 0] = v[0, 1:-1]
        for j in range(1, n - 1):
            p[1:-1, j] = -a / (a * p[1:-1, j - 1] + b)
            q[1:-1, j] = (
                -d * u[j, :-2] + (1.0 + 2.0 * d) * u[j, 1:-1] - d * u[j, 2:] - a * q[1:-1, j - 1]
            ) / (a * p[1:-1, j - 1] + b)  # fmt: skip
        v[-1, 1:-1] = 1.0
        for j in range(n - 2, 0, -1):
            v[j, 1:-1] = p[1:-1, j] * v[j + 1, 1:-1] + q[1:-1, j]
        u[1:-1, 1:-1] = 0.5 * (u[1:-1, 1:-1] + v[1:-1, 1:-1])
    return u


@program(lambda k: (2, k, random(2**k) + 0j), 2, 4, 12, 14)
def stockham_fft(radix, k, x):
    n = radix**k
    i, j = np.mgrid[0:radix, 0:radix]
    dft = np.exp(-2.0j * np.pi * i * j / radix)
    y = x.copy()
    for stage in range(k):
        rest = n // radix ** (stage + 1)
        low = radix**stage
        twiddle = np.exp(
            -2.0j * np.pi * np.arange(low).reshape(low, 1) * np.arange(radix).reshape(1, radix) / (low * radix)
        )
        y = y.reshape(radix, rest, low)
        y = np.transpose(y, (2, 0, 1)) * twiddle[:, :, None]
        y = np.transpose(np.matmul(dft, y), (2, 1, 0)).reshape(n)
    return y


@program(lambda n: (random(3, n, n) + 0j, np.exp(2j * np.pi * np.arange(8) / 8) * 3.0, np.eye(n) + 0j), 3, 6, 50, 120)
def contour_integral(hamiltonian, points, y):
    n = y.shape[0]
    p0, p1 = np.zeros((n, n), complex), np.zeros((n, n), complex)
    for z in points:
        t = np.zeros((n, n), complex)
        for k in range(3):
            t += z ** (1 - k) * hamiltonian[k]
        x = -np.linalg.inv(t) if abs(z) < 1.0 else np.linalg.inv(t)
        x = x @ y
        p0 += x
        p1 += z * x
    return p0, p1


@program(lambda n: (random(n, 3), random(n, 3), random(n), 5), 3, 5, 100, 220)
def nbody_by_arrays(position, velocity, mass, steps):
    mass = mass[:, None]
    for _ in range(steps):
        x, y, z = position[:, 0:1], position[:, 1:2], position[:, 2:3]
        dx, dy, dz = x.T - x, y.T - y, z.T - z
        inverse = dx**2 + dy**2 + dz**2 + 0.01
        inverse[inverse > 0] = inverse[inverse > 0] ** -1.5
        a = np.hstack(((dx * inverse) @ mass, (dy * inverse) @ mass, (dz * inverse) @ mass))
        velocity = velocity + a * 0.01
        position = position + velocity * 0.01
    return position, velocity


@program(lambda n: (3, random(n, n, n), random(n, n, n)), 4, 8, 50, 90, changes=True)
def heat_3d(steps, a, b):
    def update(a, b):
        b[1:-1, 1:-1, 1:-1] = (
            0.125 * (a[2:, 1:-1, 1:-1] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[:-2, 1:-1, 1:-1])
            + 0.125 * (a[1:-1, 2:, 1:-1] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1])
            + 0.125 * (a[1:-1, 1:-1, 2:] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[1:-1, 1:-1, :-2])
            + a[1:-1, 1:-1, 1:-1]
        )

    for _ in range(1, steps):
        update(a, b)
        update(b, a)
    return a


@program(lambda n: (10, random(n, n), random(n, n), random(n, n), random(10)), 4, 20, 150, 500, changes=True)
def fdtd_2d(steps, ex, ey, hz, source):
    for t in range(steps):
        ey[0, :] = source[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return hz


@program(lambda n: (random(n, n),), 4, 20, 120, 300, changes=True)
def floyd_warshall(path):
    for k in range(path.shape[0]):
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))
    return path


@program(lambda n: (n, n, 20), 4, 20, 100, 250)
def mandelbrot_by_masks(width, height, limit):
    x = np.linspace(-2.25, 0.75, width)
    y = np.linspace(-1.25, 1.25, height)
    c = x + y[:, None] * 1j
    counts = np.zeros(c.shape, dtype=np.int64)
    z = np.zeros(c.shape, dtype=np.complex128)
    for n in range(limit):
        inside = np.less(abs(z), 2.0)
        counts[inside] = n
        z[inside] = z[inside] ** 2 + c[inside]
    counts[counts == limit - 1] = 0
    return z, counts


@program(lambda n: (n, 5, 8), 6, 10, 50, 150)
def cavity_flow(n, steps, iterations):
    rho, nu, dt = 1.0, 0.1, 0.001
    d = 2.0 / (n - 1)
    u, v, p, b = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    for _ in range(steps):
        un, vn = u.copy(), v.copy()
        b[1:-1, 1:-1] = rho * (
            1 / dt * ((u[1:-1, 2:] - u[1:-1, :-2]) / (2 * d) + (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * d))
            - ((u[1:-1, 2:] - u[1:-1, :-2]) / (2 * d)) ** 2
            - 2 * ((u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * d) * (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * d))
            - ((v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * d)) ** 2
        )
        for _ in range(iterations):
            pn = p.copy()
            p[1:-1, 1:-1] = (
                pn[1:-1, 2:] + pn[1:-1, :-2] + pn[2:, 1:-1] + pn[:-2, 1:-1]
            ) / 4 - d**2 / 4 * b[1:-1, 1:-1]  # fmt: skip
            p[:, -1] = p[:, -2]
            p[0, :] = p[1, :]
            p[:, 0] = p[:, 1]
            p[-1, :] = 0
        u[1:-1, 1:-1] = (
            un[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / d * (un[1:-1, 1:-1] - un[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / d * (un[1:-1, 1:-1] - un[:-2, 1:-1])
            - dt / (2 * rho * d) * (p[1:-1, 2:] - p[1:-1, :-2])
            + nu * dt / d**2 * (un[1:-1, 2:] + un[1:-1, :-2] + un[2:, 1:-1] + un[:-2, 1:-1] - 4 * un[1:-1, 1:-1])
        )
        v[1:-1, 1:-1] = (
            vn[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / d * (vn[1:-1, 1:-1] - vn[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / d * (vn[1:-1, 1:-1] - vn[:-2, 1:-1])
            - dt / (2 * rho * d) * (p[2:, 1:-1] - p[:-2, 1:-1])
            + nu * dt / d**2 * (vn[1:-1, 2:] + vn[1:-1, :-2] + vn[2:, 1:-1] + vn[:-2, 1:-1] - 4 * vn[1:-1, 1:-1])
        )
        u[0, :], u[:, 0], u[:, -1], u[-1, :] = 0, 0, 0, 1
        v[0, :], v[-1, :], v[:, 0], v[:, -1] = 0, 0, 0, 0
    return u, v, p


@program(lambda n: (n, 1e-3 if n > 8 else 1e-1, 30 if n < 100 else 60), 6, 10, 60, 200)
def channel_flow(n, tolerance, most):
    nu, dt, force = 0.1, 0.01, 1.0
    d = 2.0 / (n - 1)
    u = np.zeros((n, n))
    udiff, rounds = 1.0, 0
    while udiff > tolerance and rounds < most:
        un = u.copy()
        u[1:-1, 1:-1] = (
            un[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / d * (un[1:-1, 1:-1] - un[1:-1, :-2])
            + nu * dt / d**2 * (un[1:-1, 2:] - 2 * un[1:-1, 1:-1] + un[1:-1, :-2])
            + force * dt
        )
        u[1:-1, -1] = un[1:-1, -1] - un[1:-1, -1] * dt / d * (un[1:-1, -1] - un[1:-1, -2]) + force * dt
        u[1:-1, 0] = un[1:-1, 0] - un[1:-1, 0] * dt / d * (un[1:-1, 0] - un[1:-1, -1]) + force * dt
        u[0, :] = 0
        u[-1, :] = 0
        udiff = (np.sum(u) - np.sum(un)) / np.sum(u)
        rounds += 1
    return u, rounds


@program(lambda n: (random(4, 2, n, n).astype(np.float32),), 3, 16, 200, 600)
def softmax(x):
    shifted = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return shifted / np.sum(shifted, axis=-1, keepdims=True)


@program(lambda n: (random(8, n), random(n, n), random(n), random(n, n), random(n), random(n, 10)), 3, 40, 600, 1000)
def mlp(x, w1, b1, w2, b2, w3):
    x = np.maximum(x @ w1 + b1, 0)
    x = np.maximum(x @ w2 + b2, 0)
    x = x @ w3
    shifted = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return shifted / np.sum(shifted, axis=-1, keepdims=True)


@program(lambda n: (random(2, n, n, 3).astype(np.float32), random(3, 3, 3, 4).astype(np.float32)), 4, 7, 20, 45)
def conv2d(x, weights):
    k = weights.shape[0]
    n, h, w = x.shape[0], x.shape[1] - k + 1, x.shape[2] - k + 1
    out = np.empty((n, h, w, weights.shape[3]), dtype=np.float32)
    for i in range(h):
        for j in range(w):
            out[:, i, j, :] = np.sum(
                x[:, i : i + k, j : j + k, :, np.newaxis] * weights[np.newaxis, :, :, :], axis=(1, 2, 3)
            )
    return out


@program(
    lambda n: (
        random(2, n, n, 8).astype(np.float32), random(8, 4).astype(np.float32),
        random(3, 3, 4, 4).astype(np.float32), random(4, 8).astype(np.float32),
    ),
    3, 4, 14, 32,
)  # fmt: skip
def residual_block(x, w1, w2, w3):
    def normalise(x):
        return (x - np.mean(x, axis=0, keepdims=True)) / np.sqrt(np.std(x, axis=0, keepdims=True) + 1e-5)

    y = np.maximum(normalise(x @ w1), 0)
    padded = np.zeros((y.shape[0], y.shape[1] + 2, y.shape[2] + 2, y.shape[3]), dtype=np.float32)
    padded[:, 1:-1, 1:-1, :] = y
    out = np.empty_like(y)
    for i in range(y.shape[1]):
        for j in range(y.shape[2]):
            out[:, i, j, :] = np.sum(padded[:, i : i + 3, j : j + 3, :, np.newaxis] * w2[np.newaxis], axis=(1, 2, 3))
    y = np.maximum(normalise(out), 0)
    return np.maximum(normalise(y @ w3) + x, 0)


@program(lambda n: (random(n), random(n), 20), 30, 500, 40000, 250000)
def azimint_naive(data, radius, bins):
    most = radius.max()
    result = np.zeros(bins)
    for i in range(bins):
        inside = np.logical_and(most * i / bins <= radius, radius < most * (i + 1) / bins)
        chosen = data[inside]
        result[i] = chosen.mean() if chosen.size else 0.0
    return result


@program(lambda n: (random(n), random(n), 50), 30, 300, 60000, 500000)
def azimint_by_histograms(data, radius, bins):
    counts = np.histogram(radius, bins)[0]
    sums = np.histogram(radius, bins, weights=data)[0]
    return sums / np.maximum(counts, 1)


@program(lambda n: (random(n, n),), 4, 40, 900, 2200)
def go_fast(a):
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


@program(
    lambda n: ((random(n, n) * 1000).astype(np.int64), (random(n, n) * 900).astype(np.int64), 4, 3, 9),
    4, 80, 600, 1500,
)  # fmt: skip
def compute(x, y, a, b, c):
    return np.clip(x, 2, 10) * a + y * b + c


@program(lambda n: (random(n), 0.25), 6, 60, 3000, 15000)
def deriche_row(x, alpha):
    k = (1.0 - np.exp(-alpha)) ** 2 / (1.0 + alpha * np.exp(-alpha) - np.exp(2.0 * alpha))
    a1, a2 = k, k * np.exp(-alpha) * (alpha - 1.0)
    b1, b2 = 2.0 ** (-alpha), -np.exp(-2.0 * alpha)
    y = np.empty_like(x)
    y[0] = a1 * x[0]
    y[1] = a1 * x[1] + a2 * x[0] + b1 * y[0]
    for j in range(2, len(x)):
        y[j] = a1 * x[j] + a2 * x[j - 1] + b1 * y[j - 1] + b2 * y[j - 2]
    return y


@program(lambda n: (random(n + 4, n + 4, 8), random(n, n, 8)), 3, 8, 80, 250)
def horizontal_diffusion(field, coefficient):
    i, j = coefficient.shape[:2]
    lap = 4.0 * field[1 : i + 3, 1 : j + 3] - (
        field[2 : i + 4, 1 : j + 3]
        + field[: i + 2, 1 : j + 3]
        + field[1 : i + 3, 2 : j + 4]
        + field[1 : i + 3, : j + 2]
    )
    fx = lap[1:, 1 : j + 1] - lap[:-1, 1 : j + 1]
    fx = np.where(fx * (field[2 : i + 3, 2 : j + 2] - field[1 : i + 2, 2 : j + 2]) > 0, 0, fx)
    fy = lap[1 : i + 1, 1:] - lap[1 : i + 1, :-1]
    fy = np.where(fy * (field[2 : i + 2, 2 : j + 3] - field[2 : i + 2, 1 : j + 2]) > 0, 0, fy)
    return field[2 : i + 2, 2 : j + 2] - coefficient * (fx[1:] - fx[:-1] + fy[:, 1:] - fy[:, :-1])


@program(lambda n: (random(n), random(n), random(n), random(n)), 4, 200, 25000, 300000)
def arc_distance(theta1, phi1, theta2, phi2):
    t = np.sin((theta2 - theta1) / 2.0) ** 2 + np.cos(theta1) * np.cos(theta2) * np.sin((phi2 - phi1) / 2.0) ** 2
    return 2 * np.arctan2(np.sqrt(t), np.sqrt(1 - t))


@program(lambda n: (random(n, n, 12), random(n, n, 12)), 3, 6, 60, 150, changes=True)
def vertical_solver(a, d):
    levels = a.shape[2]
    c = np.ndarray(a.shape)
    c[:, :, 0] = 0.5 / (1.0 + a[:, :, 0])
    for k in range(1, levels):
        factor = 1.0 / (2.0 + a[:, :, k] - 0.5 * c[:, :, k - 1])
        c[:, :, k] = 0.5 * factor
        d[:, :, k] = (d[:, :, k] - 0.5 * d[:, :, k - 1]) * factor
    for k in range(levels - 2, -1, -1):
        d[:, :, k] -= c[:, :, k] * d[:, :, k + 1]
    return d
