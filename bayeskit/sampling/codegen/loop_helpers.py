"""Functions that loops over a workspace call: their source, and the types of their arguments.

With the types given each is compiled once. Left to itself, numba compiles it anew for each set of constants that it is
called with.
"""

from __future__ import annotations

__all__ = ["helpers"]

# A flat array and an integer are A and N. The terms of a sum by ``plus`` may be added in any order, several at a time.
DEFINITIONS = """
@compiled(types.float64(types.float64, types.float64), fastmath={"contract", "reassoc"})
def plus(x, y):
    return x + y


@compiled(types.float64(types.float64))
def softplus(x):
    if x < -37.0:
        return math.exp(x)
    if x < 18.0:
        return math.log1p(math.exp(x))
    if x < 33.3:
        return x + math.exp(-x)
    return x


@compiled(types.float64(types.float64))
def log1mexp(x):
    if x < -0.6931471805599453:
        return math.log1p(-math.exp(x))
    return math.log(-math.expm1(x))


@compiled(types.void(A, N, N, N, A, N, N, N, N))
def cholesky(a, at, down, right, w, to, w_down, w_right, size):
    pivot = 1.0
    for j in range(size):
        for k in range(j + 1, size):
            w[to + j * w_down + k * w_right] = 0.0
        for i in range(j, size):
            total = a[at + i * down + j * right]
            for k in range(j):
                total -= w[to + i * w_down + k * w_right] * w[to + j * w_down + k * w_right]
            if i > j:
                w[to + i * w_down + j * w_right] = total / pivot
            elif total > 0.0:
                pivot = math.sqrt(total)
                w[to + j * w_down + j * w_right] = pivot
            else:
                for p in range(size):
                    for q in range(size):
                        w[to + p * w_down + q * w_right] = NAN
                return


@compiled(types.void(A, N, N, N, types.boolean, A, N, N, N, A, N, N, N, N, N))
def solve_triangular(a, at, down, right, lower, b, b_at, b_down, b_right, w, to, w_down, w_right, size, columns):
    regular = 1.0
    for k in range(size):
        if a[at + k * (down + right)] == 0.0:
            regular = NAN
    for step in range(size):
        i = step if lower else size - 1 - step
        for j in range(columns):
            w[to + i * w_down + j * w_right] = b[b_at + i * b_down + j * b_right]
        for before in range(step):
            k = before if lower else size - 1 - before
            factor = a[at + i * down + k * right]
            for j in range(columns):
                w[to + i * w_down + j * w_right] -= factor * w[to + k * w_down + j * w_right]
        pivot = a[at + i * (down + right)] * regular
        for j in range(columns):
            w[to + i * w_down + j * w_right] /= pivot


@compiled(types.void(A, N, N, N, A, N, N))
def derivative_of_log_determinant(a, at, down, right, w, to, size):
    for i in range(size):
        row = to + i * size
        for j in range(size):
            w[row + j] = 0.0
        w[row + i] = 1.0
        for k in range(i):
            factor = a[at + i * down + k * right]
            for j in range(k + 1):
                w[row + j] -= factor * w[to + k * size + j]
        pivot = a[at + i * (down + right)]
        for j in range(i + 1):
            w[row + j] /= pivot
    for i in range(size):
        row = to + i * size
        pivot = w[row + i]
        for j in range(i + 1):
            w[row + j] *= pivot
        for k in range(i + 1, size):
            factor = w[to + k * size + i]
            for j in range(i + 1):
                w[row + j] += factor * w[to + k * size + j]
        for j in range(i):
            w[row + j] *= 2.0


@compiled(types.void(A, N, N, N, A, N, N, N))
def triangle(a, at, down, right, w, to, rows, columns):
    for i in range(rows):
        for j in range(columns):
            w[to + i * columns + j] = a[at + i * down + j * right]
    for k in range(min(rows - 1, columns)):
        own = to + k * columns
        below = 0.0
        for i in range(k + 1, rows):
            below += w[to + i * columns + k] ** 2
        if below == 0.0:
            continue
        first = w[own + k]
        pivot = -math.copysign(math.sqrt(first * first + below), first)
        for i in range(k + 1, rows):
            w[to + i * columns + k] /= first - pivot
        share = (pivot - first) / pivot
        for j in range(k + 1, columns):
            total = w[own + j]
            for i in range(k + 1, rows):
                total += w[to + i * columns + k] * w[to + i * columns + j]
            w[own + j] -= share * total
            for i in range(k + 1, rows):
                w[to + i * columns + j] -= share * total * w[to + i * columns + k]
        w[own + k] = pivot
    for i in range(1, rows):
        for j in range(min(i, columns)):
            w[to + i * columns + j] = 0.0


@compiled(types.void(A, N, types.boolean, A, N, types.boolean, A, N, N, N, N))
def multiply(a, a_at, a_turned, b, b_at, b_turned, w, at, rows, inner, columns):
    out = w[at : at + rows * columns].reshape((rows, columns))
    left, right = a[a_at : a_at + rows * inner], b[b_at : b_at + inner * columns]
    if a_turned and b_turned:
        np.dot(left.reshape((inner, rows)).T, right.reshape((columns, inner)).T, out)
    elif a_turned:
        np.dot(left.reshape((inner, rows)).T, right.reshape((inner, columns)), out)
    elif b_turned:
        np.dot(left.reshape((rows, inner)), right.reshape((columns, inner)).T, out)
    else:
        np.dot(left.reshape((rows, inner)), right.reshape((inner, columns)), out)
"""


def helpers(source: str) -> str:
    """Definitions of the functions that a source calls."""
    definitions = DEFINITIONS.strip().split("\n\n\n")
    called = [d for d in definitions if d.partition("def ")[2].partition("(")[0] + "(" in source]
    return "".join(f"\n\n{d}\n" for d in called)
