"""Upper bound on the worth of a knapsack, by its divisible relaxation.

The prices of resources that the method ends with bound every packing, whatever rounding did to
them: ``sum_r y_r c_r + sum_j most_j max(0, p_j - y . d_j)``.

Source: the bounded primal simplex method, Dantzig 1955.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled

# Pivots per row and column that the method may take; after it the prices are as good as they are.
MOST_PIVOTS = 20
# Relative size of a reduced price or a pivot that counts as 0.
ZERO = 1e-12


@compiled
def relaxed(prices, demand, capacity, most, y, count):
    """Fill ``y`` (m,) with prices of resources and ``count`` (n,) with divisible tasks.

    ``demand`` (n, m) and ``capacity`` (m,) in shares of the capacity, ``most`` (n,) tasks.
    Returns what no packing exceeds.
    """
    n, m = demand.shape
    inverse = np.eye(m)
    basis = np.arange(n, n + m)  # slack r is variable n + r
    amount = capacity.copy()  # of the basic variables
    state = np.zeros(n, dtype=np.int64)  # 0: at nothing, 1: at most, 2: basic
    slack_state = np.full(m, 2, dtype=np.int64)
    column = np.zeros(m)
    y[:] = 0.0
    largest = 0.0
    for j in range(n):
        largest = max(largest, prices[j])
    pivots = MOST_PIVOTS * (n + m)
    for pivot in range(pivots):
        # Pricing: the variable with the greatest gain enters, a workload at either end or a slack.
        entering, best, up = -1, 0.0, True
        for j in range(n):
            if state[j] == 2 or most[j] <= 0.0:
                continue
            gain, size = prices[j], 0.0
            for r in range(m):
                gain -= y[r] * demand[j, r]
                size += demand[j, r]
            if (state[j] == 0) != (gain > 0.0):
                continue
            # Gains of rounding would pivot without end.
            if abs(gain) <= ZERO * prices[j]:
                continue
            # Gain per share of the resources; the first one near a cycle (Bland).
            worth = abs(gain) / size if pivot < pivots // 2 else 1.0
            if worth > best:
                entering, best, up = j, worth, gain > 0.0
        # A negative price proves no bound: the slack of its resource enters.
        for r in range(m):
            if slack_state[r] == 0 and y[r] < -ZERO * largest:
                worth = -y[r] if pivot < pivots // 2 else 1.0
                if worth > best:
                    entering, best, up = n + r, worth, True
        if entering < 0:
            break
        for q in range(m):
            if entering >= n:
                column[q] = inverse[q, entering - n]
                continue
            total = 0.0
            for r in range(m):
                total += inverse[q, r] * demand[entering, r]
            column[q] = total
        sign = 1.0 if up else -1.0
        # Ratio test: limits of tasks are kept here and not as rows, so that the basis stays m by m.
        length = most[entering] if entering < n else np.inf
        leaving, at_most = -1, False
        for q in range(m):
            change = sign * column[q]
            if change > ZERO:
                limit = amount[q] / change
                if limit < length:
                    length, leaving, at_most = max(limit, 0.0), q, False
            elif change < -ZERO and basis[q] < n:
                limit = (most[basis[q]] - amount[q]) / -change
                if limit < length:
                    length, leaving, at_most = max(limit, 0.0), q, True
        for q in range(m):
            amount[q] -= sign * column[q] * length
        # The variable meets its own other end first, and the basis stays.
        if leaving < 0:
            state[entering] = 1 if up else 0
            continue
        gone = basis[leaving]
        if gone < n:
            state[gone] = 1 if at_most else 0
        else:
            slack_state[gone - n] = 0
        basis[leaving] = entering
        if entering < n:
            amount[leaving] = length if up else most[entering] - length
            state[entering] = 2
        else:
            amount[leaving] = length
            slack_state[entering - n] = 2
        # The inverse is only updated: its rounding makes prices worse, but no bound wrong.
        for r in range(m):
            inverse[leaving, r] /= column[leaving]
        for q in range(m):
            if q != leaving and column[q] != 0.0:
                for r in range(m):
                    inverse[q, r] -= column[q] * inverse[leaving, r]
        for r in range(m):
            total = 0.0
            for q in range(m):
                if basis[q] < n:
                    total += prices[basis[q]] * inverse[q, r]
            y[r] = total
    count[:] = 0.0
    for j in range(n):
        if state[j] == 1:
            count[j] = most[j]
    for q in range(m):
        if basis[q] < n:
            count[basis[q]] = min(max(amount[q], 0.0), most[basis[q]])
    # From the prices alone, so that neither rounding nor an early end can make it too low.
    bound = 0.0
    for r in range(m):
        y[r] = max(y[r], 0.0)
        bound += y[r] * capacity[r]
    for j in range(n):
        gain = prices[j]
        for r in range(m):
            gain -= y[r] * demand[j, r]
        bound += max(gain, 0.0) * most[j]
    return bound
