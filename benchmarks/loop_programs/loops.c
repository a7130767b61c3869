// Some of the programs in C, for the column C of loops.py: each array is a pointer, behind which its lengths stand.
#include <math.h>
#include <stdint.h>

int64_t fibonacci(int64_t rounds) {
  int64_t total = 0;
  for (int64_t r = 0; r < rounds; ++r) {
    int64_t a = 0, b = r;
    for (int k = 0; k < 30 + r % 30; ++k) {
      int64_t next = a + b;
      a = b;
      b = next;
    }
    total = (total + a) % 1000003;
  }
  return total;
}

int64_t gcd_sum(int64_t n) {
  int64_t total = 0;
  for (int64_t i = 1; i < n; ++i)
    for (int64_t j = i; j < n; ++j) {
      int64_t a = i, b = j;
      while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
      }
      total += a;
    }
  return total;
}

int64_t count_primes(int64_t n) {
  int64_t count = 0;
  for (int64_t candidate = 2; candidate < n; ++candidate) {
    int64_t divisor = 2;
    for (; divisor * divisor <= candidate; ++divisor)
      if (candidate % divisor == 0) break;
    count += divisor * divisor > candidate;
  }
  return count;
}

double pi_series(int64_t n) {
  double total = 0, sign = 1;
  for (int64_t k = 0; k < n; ++k) {
    total += sign / (double)(2 * k + 1);
    sign = -sign;
  }
  return 4 * total;
}

double logistic_map(int64_t n) {
  double x = 0.3;
  for (int64_t k = 0; k < n; ++k) x = 3.7 * x * (1 - x);
  return x;
}

int64_t mandelbrot(int64_t n) {
  int64_t inside = 0;
  for (int64_t row = 0; row < n; ++row)
    for (int64_t column = 0; column < n; ++column) {
      double cx = 3.0 * column / n - 2, cy = 2.0 * row / n - 1, x = 0, y = 0;
      int k = 0;
      for (; k < 80; ++k) {
        double xx = x * x, yy = y * y;
        if (xx + yy > 4) break;
        y = 2 * x * y + cy;
        x = xx - yy + cx;
      }
      inside += k == 80;
    }
  return inside;
}

int64_t digit_sums(int64_t n) {
  int64_t total = 0;
  for (int64_t number = 0; number < n; ++number)
    for (int64_t rest = number; rest > 0; rest /= 10) total += rest % 10;
  return total;
}

double simpson(int64_t n) {
  double width = 4.0 / n, total = 0;
  for (int64_t i = 0; i <= n; ++i) {
    double x = i * width, weight = i == 0 || i == n ? 1 : i % 2 ? 4 : 2;
    total += weight * exp(-x * x) * sin(3 * x);
  }
  return total * width / 3;
}

double sum_of_squares(const double* a, int64_t n) {
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += a[i] * a[i];
  return total;
}

void running_maximum(const double* a, int64_t n, double* out, int64_t m) {
  double best = a[0];
  (void)m;
  for (int64_t i = 0; i < n; ++i) {
    if (a[i] > best) best = a[i];
    out[i] = best;
  }
}

void bubble_sort(double* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n - i - 1; ++j)
      if (a[j] > a[j + 1]) {
        double t = a[j];
        a[j] = a[j + 1];
        a[j + 1] = t;
      }
}

void insertion_sort(double* a, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    double key = a[i];
    int64_t j = i - 1;
    for (; j >= 0 && a[j] > key; --j) a[j + 1] = a[j];
    a[j + 1] = key;
  }
}

int64_t crc16(const uint8_t* data, int64_t n) {
  int64_t crc = 0xFFFF;
  for (int64_t i = 0; i < n; ++i) {
    int64_t byte = data[i];
    for (int k = 0; k < 8; ++k, byte >>= 1) crc = (crc ^ byte) & 1 ? (crc >> 1) ^ 0x8408 : crc >> 1;
  }
  return crc ^ 0xFFFF;
}

void matmul(const double* a, int64_t n, int64_t m, const double* b, int64_t b0, int64_t p, double* c, int64_t c0,
            int64_t c1) {
  (void)b0, (void)c0, (void)c1;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < p; ++j) {
      double total = 0;
      for (int64_t k = 0; k < m; ++k) total += a[i * m + k] * b[k * p + j];
      c[i * p + j] = total;
    }
}

void floyd_warshall(double* d, int64_t n, int64_t m) {
  for (int64_t k = 0; k < n; ++k)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        if (d[i * m + k] + d[k * m + j] < d[i * m + j]) d[i * m + j] = d[i * m + k] + d[k * m + j];
}

void seidel_2d(double* a, int64_t n, int64_t m, int64_t steps) {
  for (int64_t t = 0; t < steps; ++t)
    for (int64_t i = 1; i < n - 1; ++i)
      for (int64_t j = 1; j < m - 1; ++j) {
        double* p = a + i * m + j;
        *p = (p[-m - 1] + p[-m] + p[-m + 1] + p[-1] + p[0] + p[1] + p[m - 1] + p[m] + p[m + 1]) / 9;
      }
}

void cholesky(double* a, int64_t n, int64_t m) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      for (int64_t k = 0; k < j; ++k) a[i * m + j] -= a[i * m + k] * a[j * m + k];
      a[i * m + j] /= a[j * m + j];
    }
    for (int64_t k = 0; k < i; ++k) a[i * m + i] -= a[i * m + k] * a[i * m + k];
    a[i * m + i] = sqrt(a[i * m + i]);
  }
}

void spectral_norm(const double* u, int64_t n, double* v, int64_t m) {
  (void)m;
  for (int64_t i = 0; i < n; ++i) {
    double total = 0;
    for (int64_t j = 0; j < n; ++j) total += 1.0 / ((i + j) * (i + j + 1) / 2 + i + 1) * u[j];
    v[i] = total;
  }
}
