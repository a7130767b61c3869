"""Lists, dicts, sets, heaps and graphs of them."""

import bisect
import heapq
import itertools
from collections import Counter, OrderedDict, defaultdict, deque

from never_slower_programs import Family

program = Family()


def graph(n):
    return {i: [(i * 2 + 1) % n, (i * 3 + 2) % n, (i + 1) % n] for i in range(n)}


def weighted(n):
    return {i: {(i * 2 + 1) % n: i % 7 + 1, (i * 3 + 2) % n: i % 5 + 2, (i + 1) % n: 9} for i in range(n)}


def records(n):
    return [{"name": f"n{i % 13}", "age": (i * 7) % 80, "score": (i * 31 % 97) / 3.0} for i in range(n)]


@program(lambda n: (records(n),), 4, 80, 6000, 40000)
def group_by_name(rows):
    groups = {}
    for row in rows:
        if row["name"] not in groups:
            groups[row["name"]] = []
        groups[row["name"]].append(row["score"])
    return {name: sum(scores) / len(scores) for name, scores in groups.items()}


@program(lambda n: (records(n),), 4, 80, 6000, 40000)
def group_by_default_dict(rows):
    groups = defaultdict(list)
    for row in rows:
        groups[row["age"] // 10].append(row["name"])
    return {k: Counter(v).most_common(2) for k, v in sorted(groups.items())}


@program(lambda n: (records(n),), 4, 60, 4000, 25000)
def sort_with_keys(rows):
    by_score = sorted(rows, key=lambda r: (-r["score"], r["name"]))
    return [r["name"] for r in by_score[:10]], sorted({r["age"] for r in rows}, reverse=True)


@program(lambda n: ([(i * 7919) % 10007 for i in range(n)],), 5, 50, 5000, 30000)
def heap_sort(values):
    heap = []
    for v in values:
        heapq.heappush(heap, v)
    return [heapq.heappop(heap) for _ in range(len(heap))]


@program(lambda n: ([(i * 7919) % 10007 for i in range(n)],), 5, 100, 3000, 12000)
def keep_sorted(values):
    kept, ranks = [], 0
    for v in values:
        bisect.insort(kept, v)
        ranks += bisect.bisect_left(kept, v // 2)
    return kept[:10], ranks


@program(lambda n: (graph(n), 0), 5, 60, 5000, 30000)
def breadth_first(graph, start):
    distance = {start: 0}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for other in graph[node]:
            if other not in distance:
                distance[other] = distance[node] + 1
                queue.append(other)
    return distance


@program(lambda n: (graph(n), 0), 5, 80, 4000, 20000)
def depth_first_by_stack(graph, start):
    seen, order, stack = set(), [], [start]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        order.append(node)
        stack.extend(reversed(graph[node]))
    return order


@program(lambda n: (weighted(n), 0), 5, 40, 2000, 12000)
def dijkstra(graph, source):
    distance = {source: 0}
    heap = [(0, source)]
    while heap:
        d, node = heapq.heappop(heap)
        if d > distance[node]:
            continue
        for other, weight in graph[node].items():
            new = d + weight
            if new < distance.get(other, float("inf")):
                distance[other] = new
                heapq.heappush(heap, (new, other))
    return distance


@program(lambda n: ({i: [j for j in (i * 2 + 1, i * 2 + 2, i + 5) if j < n] for i in range(n)},), 6, 80, 6000, 40000)
def topological_order(graph):
    degree = dict.fromkeys(graph, 0)
    for targets in graph.values():
        for t in targets:
            degree[t] += 1
    queue = deque(node for node, d in degree.items() if d == 0)
    order = []
    while queue:
        node = queue.popleft()
        order.append(node)
        for t in graph[node]:
            degree[t] -= 1
            if degree[t] == 0:
                queue.append(t)
    return order


@program(lambda n: (n, [((i * 7) % n, (i * 13 + 5) % n) for i in range(n)]), 5, 60, 5000, 30000)
def union_find(n, pairs):
    parent = list(range(n))

    def find(x):
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    for a, b in pairs:
        parent[find(a)] = find(b)
    return len({find(i) for i in range(n)})


@program(lambda n: ([[i * j for j in range(20)] for i in range(n)],), 3, 20, 2000, 10000)
def transpose_and_flatten(rows):
    columns = [list(c) for c in zip(*rows)]
    flat = [v for row in rows for v in row if v % 3 == 0]
    return [sum(c) for c in columns], len(flat), flat[-1]


@program(lambda n: ({(i, j) for i in range(n) for j in range(n) if (i * 3 + j * 5) % 4 == 0}, 2), 4, 6, 40, 100)
def life_of_sets(cells, steps):
    for _ in range(steps):
        counts = Counter((x + dx, y + dy) for x, y in cells for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy)
        cells = {cell for cell, c in counts.items() if c == 3 or (c == 2 and cell in cells)}
    return sorted(cells)


@program(lambda n: (list(range(n)), n // 2 + 3), 6, 400, 30000, 200000)
def two_sum(values, target):
    seen, found = {}, []
    for i, v in enumerate(values):
        if target - v in seen:
            found.append((seen[target - v], i))
        seen[v] = i
    return found[:20], len(found)


@program(lambda n: ([((i * 37) % 1000, (i * 37) % 1000 + i % 20) for i in range(n)],), 5, 80, 5000, 30000)
def merge_intervals(intervals):
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


@program(lambda n: (n,), 5, 400, 30000, 200000)
def josephus(n):
    circle = deque(range(1, n + 1))
    while len(circle) > 1:
        circle.rotate(-2)
        circle.popleft()
    return circle[0]


@program(lambda n: (set(range(0, n, 2)), set(range(0, n, 3))), 6, 500, 50000, 300000)
def set_algebra(a, b):
    both = a & b
    either = a | b
    return len(both), len(either - both), sum(x for x in a ^ b if x % 5), min(either), a >= both


@program(lambda n: ([(i, w) for i, w in enumerate("abcde" * n)],), 2, 30, 3000, 20000)
def inventory(events):
    stock, log = {}, []
    for amount, item in events:
        stock[item] = stock.get(item, 0) + (amount if amount % 3 else -amount)
        if stock[item] < 0:
            log.append((item, stock[item]))
            stock[item] = 0
    return stock, log[-3:]


@program(lambda n: (list(range(n)), 7), 8, 100, 8000, 50000)
def sliding_window_maximum(values, width):
    window, out = deque(), []
    for i, v in enumerate(values):
        v = v * 7919 % 1009
        while window and window[-1][1] <= v:
            window.pop()
        window.append((i, v))
        if window[0][0] <= i - width:
            window.popleft()
        if i >= width - 1:
            out.append(window[0][1])
    return out


@program(lambda n: ([f"k{i * 7 % 50}" for i in range(n)], 20), 5, 80, 8000, 50000)
def cache_by_ordered_dict(keys, room):
    cache, hits = OrderedDict(), 0
    for key in keys:
        if key in cache:
            hits += 1
            cache.move_to_end(key)
        else:
            cache[key] = len(key)
            if len(cache) > room:
                cache.popitem(last=False)
    return hits, list(cache)


@program(lambda n: ({f"a{i}": {"b": [i, {"c": i * 2}], "d": (i, i)} for i in range(n)},), 3, 30, 2500, 15000)
def nested_walk(tree):
    total, stack = 0, [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
        else:
            total += item
    return total


@program(lambda n: (list(range(n)),), 4, 300, 25000, 150000)
def comprehensions(values):
    squares = [v * v for v in values if v % 2]
    index = {v: i for i, v in enumerate(squares)}
    return len(index), sum(squares), {v % 10 for v in squares}


@program(lambda n: ([(i * 7919) % 1000 for i in range(n)],), 5, 25, 200, 600)
def bubble_sort_of_list(values):
    a = list(values)
    for i in range(len(a)):
        swapped = False
        for j in range(len(a) - i - 1):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
                swapped = True
        if not swapped:
            break
    return a


@program(lambda n: ([(i * 7919) % 1000 for i in range(n)],), 5, 200, 8000, 50000)
def longest_increasing(values):
    tails = []
    for v in values:
        k = bisect.bisect_left(tails, v)
        if k == len(tails):
            tails.append(v)
        else:
            tails[k] = v
    return tails


@program(lambda n: (list(range(n)), list(range(n, 0, -1))), 5, 300, 20000, 120000)
def running_products(a, b):
    sums = list(itertools.accumulate(x * y % 17 for x, y in zip(a, b)))
    return sums[-1], max(sums), [len(list(g)) for _, g in itertools.groupby(sums, key=lambda v: v // 1000)][:5]


@program(lambda n: ([1, 5, 10, 25, 50], n), 12, 120, 6000, 40000)
def coin_change(coins, amount):
    ways = [1] + [0] * amount
    for coin in coins:
        for i in range(coin, amount + 1):
            ways[i] += ways[i - coin]
    return ways[amount]


@program(lambda n: ([list(range(n)) for _ in range(n)],), 4, 10, 70, 180)
def spiral(rows):
    out = []
    rows = [row[:] for row in rows]
    while rows:
        out += rows.pop(0)
        rows = [list(r) for r in zip(*rows)][::-1]
    return out
