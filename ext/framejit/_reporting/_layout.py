"""Places the nodes of a graph in layers, from top to bottom.

The method is Sugiyama's: layers by longest paths, fewer crossings by barycenters, positions by least squares. Graphviz does it
better but is not installed everywhere, and the libraries in Python that do it come with other licenses or with compiled code.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

_GAP_X = 22.0
_GAP_Y = 34.0
_GAP_EDGE = 12.0  # next to an edge that passes a layer
_SWEEPS = 12
_END = 0.01  # weight of what has neighbours on one side only


@dataclass
class Layout:
    """Where everything is.

    Attributes
    ----------
    centers : list of (float, float)
        The middle of each node.
    routes : list of list of (float, float)
        The points of each edge, from the bottom of a node to the top of another one.
    width, height : float
        The size of the whole.
    """

    centers: list[tuple[float, float]] = field(default_factory=list)
    routes: list[list[tuple[float, float]]] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0


class _Layers:
    """Nodes in layers. There are more than the graph has: one in each layer that an edge passes."""

    def __init__(self, count: int, edges: Sequence[tuple[int, int]]) -> None:
        self.layer = ranks(count, edges)
        self.above: list[list[int]] = [[] for _ in range(count)]
        self.below: list[list[int]] = [[] for _ in range(count)]
        self.chains: list[list[int]] = []
        passing: dict[tuple[int, int], int] = {}
        for source, target in edges:
            chain = [source]
            for layer in range(self.layer[source] + 1, self.layer[target]):
                if (source, layer) not in passing:
                    passing[source, layer] = len(self.layer)
                    self.layer.append(layer)
                    self.above.append([])
                    self.below.append([])
                    self._link(chain[-1], passing[source, layer])
                chain.append(passing[source, layer])
            self._link(chain[-1], target)
            self.chains.append([*chain, target])
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for node, layer in enumerate(self.layer):
            self.rows[layer].append(node)

    def _link(self, upper: int, lower: int) -> None:
        if lower not in self.below[upper]:
            self.below[upper].append(lower)
            self.above[lower].append(upper)

    def order(self) -> None:
        """Sort each layer so that few edges cross."""
        best, fewest = [row[:] for row in self.rows], self._crossings()
        for sweep in range(_SWEEPS):
            if fewest == 0:
                break
            downward = sweep % 2 == 0
            near = self.above if downward else self.below
            count = len(self.rows)
            for layer in range(1, count) if downward else range(count - 2, -1, -1):
                place = {node: i for i, node in enumerate(self.rows[layer - 1 if downward else layer + 1])}
                row = self.rows[layer]
                wanted = {
                    node: sum(place[n] for n in near[node]) / len(near[node]) if near[node] else float(i)
                    for i, node in enumerate(row)
                }
                row.sort(key=wanted.__getitem__)
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [row[:] for row in self.rows], crossings
        self.rows = best

    def _crossings(self) -> int:
        total = 0
        for upper, lower in zip(self.rows, self.rows[1:], strict=False):
            place = {node: i for i, node in enumerate(lower)}
            seen: list[int] = []
            for node in upper:
                ends = [place[n] for n in self.below[node]]
                total += sum(len(seen) - bisect_right(seen, end) for end in ends)
                for end in ends:
                    insort(seen, end)
        return total


def ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each node: below all that it follows; a node that follows nothing is next to the node that takes it."""
    found = [0] * count
    incoming: list[list[int]] = [[] for _ in range(count)]
    outgoing: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        incoming[target].append(source)
        outgoing[source].append(target)
    for node in range(count):
        found[node] = max((found[n] + 1 for n in incoming[node]), default=0)
    for node in range(count):
        if not incoming[node] and outgoing[node]:
            found[node] = min(found[n] for n in outgoing[node]) - 1
    return found


def place(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Layout:
    """Place nodes of these sizes. An edge leads from a node to one with a higher number."""
    layers = _Layers(len(sizes), edges)
    layers.order()
    widths = [size[0] for size in sizes] + [0.0] * (len(layers.layer) - len(sizes))
    x = _horizontal(layers, widths, len(sizes))
    left = min((at - widths[node] / 2 for node, at in enumerate(x)), default=0.0)
    x = [at - left for at in x]
    y, height = [0.0] * len(layers.rows), 0.0
    tallest = [max((sizes[node][1] for node in row if node < len(sizes)), default=0.0) for row in layers.rows]
    for layer, tall in enumerate(tallest):
        y[layer] = height + tall / 2
        height += tall + _GAP_Y
    layout = Layout(
        width=max((at + widths[node] / 2 for node, at in enumerate(x)), default=0.0), height=max(height - _GAP_Y, 0.0)
    )
    layout.centers = [(x[node], y[layers.layer[node]]) for node in range(len(sizes))]
    for chain in layers.chains:
        source, target = chain[0], chain[-1]
        route = [(x[source], layout.centers[source][1] + sizes[source][1] / 2)]
        for node in chain[1:-1]:
            middle, tall = y[layers.layer[node]], tallest[layers.layer[node]]
            route += [(x[node], middle - tall / 2), (x[node], middle + tall / 2)]
        layout.routes.append([*route, (x[target], layout.centers[target][1] - sizes[target][1] / 2)])
    return layout


def _horizontal(layers: _Layers, widths: list[float], nodes: int) -> list[float]:
    x = [0.0] * len(widths)
    gaps: list[list[float]] = []
    for row in layers.rows:
        apart = [0.0]
        for left, right in zip(row, row[1:], strict=False):
            gap = _GAP_X if left < nodes and right < nodes else _GAP_EDGE
            apart.append(apart[-1] + (widths[left] + widths[right]) / 2 + gap)
        gaps.append(apart)
        for node, at in zip(row, apart, strict=True):
            x[node] = at - apart[-1] / 2
    # What has neighbours on one side only gives way, or chains would bend towards each input on their way down.
    ends = [not above or not below for above, below in zip(layers.above, layers.below, strict=True)]
    weights = [_END if end else 1.0 if node < nodes else 4.0 for node, end in enumerate(ends)]
    for sweep in range(_SWEEPS):
        rows = list(zip(layers.rows, gaps, strict=True))
        for row, apart in rows if sweep % 2 == 0 else reversed(rows):
            wanted = []
            for node in row:
                near = layers.above[node] if sweep % 2 == 0 else layers.below[node]
                near = near or layers.above[node] + layers.below[node]
                near = [n for n in near if not ends[n]] or near
                wanted.append(sum(x[n] for n in near) / len(near) if near else x[node])
            for node, at in zip(row, _apart(wanted, [weights[node] for node in row], apart), strict=True):
                x[node] = at
    return x


def _apart(wanted: list[float], weights: list[float], apart: list[float]) -> list[float]:
    """The positions nearest to the wanted ones, by least squares, that are at least so far apart (pool adjacent violators)."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, count
    for at, weight, offset in zip(wanted, weights, apart, strict=True):
        mean, count = at - offset, 1
        while pools and pools[-1][0] > mean:
            before, heavy, more = pools.pop()
            mean = (mean * weight + before * heavy) / (weight + heavy)
            weight, count = weight + heavy, count + more
        pools.append((mean, weight, count))
    flat = [mean for mean, _, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(flat, apart, strict=True)]
