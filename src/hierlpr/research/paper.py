"""Algorithms 1 to 6 of the HierLPR paper, as printed: to read, and as references in tests.

Every function takes one sample's forest as `parent` (the index of each node's parent, -1 for
roots; parents have smaller indices than their children) and its `lpr`, and returns node indices
in calling order. They follow the paper step by step and take up to O(K^3) time; `hierlpr.rank` is
the fast version. Where the paper leaves a choice or needs a correction, the docstring says how it
is read. Ties: the larger mean first, then the smaller index of the sequence's first node; the
shortest of equally good prefixes. Keys ``ho2018hierlpr``, ``baraniuk1994`` and ``bi2011`` in
``docs/references.bib``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

Nodes = list[int]


def chain_merge(chains: Sequence[Nodes], lpr: Sequence[float]) -> Nodes:
    """Algorithm 1: merge chains by repeatedly removing the best prefix of any chain."""
    left = [list(chain) for chain in chains if chain]
    merged: Nodes = []
    while left:
        options = [
            (_mean(chain[:i], lpr), -chain[0], -i, number)
            for number, chain in enumerate(left)
            for i in range(1, len(chain) + 1)
        ]
        _, _, minus_i, number = max(options)
        merged += left[number][:-minus_i]
        left[number] = left[number][-minus_i:]
        left = [chain for chain in left if chain]
    return merged


def hierlpr(parent: Sequence[int], lpr: Sequence[float]) -> Nodes:
    """Algorithm 2: merge chains pairwise from the bottom up, then across the forest.

    Read: a node goes back to P as long as it has more than one child. The order of the pairs does
    not matter.
    """
    below = _children(parent)
    roots = [i for i in range(len(parent)) if parent[i] < 0]
    for v in reversed(range(len(parent))):  # all branching nodes, the deepest first
        while len(below[v]) > 1:
            merged = chain_merge([_chain_from(r, below) for r in below[v][:2]], lpr)
            for upper, lower in pairwise(merged):
                below[upper] = [lower]
            below[merged[-1]] = []
            below[v] = [merged[0], *below[v][2:]]
    return chain_merge([_chain_from(r, below) for r in roots], lpr)


def hierlpr_condensing(parent: Sequence[int], lpr: Sequence[float]) -> Nodes:
    """Algorithm 3: merge the best supernode into its parent, or call it if it has none.

    Inside a supernode the parent's sequence comes first, then the child's.
    """
    return [node for supernode in _supernodes(parent, lpr) for node in supernode]


def breaking_points(chain: Nodes, lpr: Sequence[float]) -> list[Nodes]:
    """Equation of the breaking points: split a chain into blocks of decreasing mean.

    Read: argmax, not max, and 1/|C_r(i)|.
    """
    blocks = []
    rest = list(chain)
    while rest:
        cut = max(range(1, len(rest) + 1), key=lambda i: (_mean(rest[:i], lpr), -i))
        blocks.append(rest[:cut])
        rest = rest[cut:]
    return blocks


def agglomerate(
    upstream: list[Nodes], downstream: list[Nodes], lpr: Sequence[float]
) -> list[Nodes]:
    """Algorithm 4: join the blocks of an upstream chain with those of the chain below it.

    Read: a missing neighbour counts as +infinity above and as -infinity below.
    """
    above, below = list(upstream), list(downstream)
    if not below:
        return above
    here = below.pop(0)
    while True:
        mean = _mean(here, lpr)
        if above and mean > _mean(above[-1], lpr):
            here = above.pop() + here
        elif below and _mean(below[0], lpr) > mean:
            here = here + below.pop(0)
        else:
            return [*above, here, *below]


def hierlpr_fast(parent: Sequence[int], lpr: Sequence[float]) -> Nodes:
    """Algorithm 5: Algorithm 2 on blocks, each chain split only once.

    Read: the chain that ends in v and standalone chains are split into blocks too.
    """
    below = _children(parent)
    blocks: dict[int, list[Nodes]] = {}  # of the chain that starts at a node
    for r in reversed(range(len(parent))):
        if parent[r] >= 0 and len(below[parent[r]]) == 1:
            continue  # inside a chain
        chain = _chain_from(r, below)
        lower = _merge_blocks([blocks[c] for c in below[chain[-1]]], lpr)
        blocks[r] = agglomerate(breaking_points(chain, lpr), lower, lpr)
    merged = _merge_blocks([blocks[r] for r in range(len(parent)) if parent[r] < 0], lpr)
    return [node for block in merged for node in block]


def cssa(parent: Sequence[int], lpr: Sequence[float], n_calls: float) -> list[float]:
    """Algorithm 6, CSSA: the share of each node that is selected with `n_calls` calls.

    The last supernode is selected in part, as the relaxed problem allows. The roots of a forest
    are children of an imaginary node 0 that is always selected and not counted.
    """
    selected = [0.0] * len(parent)
    left = n_calls
    for supernode in _supernodes(parent, lpr):
        for node in supernode:
            selected[node] = min(1.0, max(0.0, left) / len(supernode))
        left -= len(supernode)
    return selected


def _mean(nodes: Nodes, lpr: Sequence[float]) -> Fraction:
    """Return the exact mean, so that ties are ties."""
    return sum((Fraction(lpr[i]) for i in nodes), Fraction(0)) / len(nodes)


def _children(parent: Sequence[int]) -> list[Nodes]:
    below: list[Nodes] = [[] for _ in parent]
    for i, p in enumerate(parent):
        if p >= 0:
            below[p].append(i)
    return below


def _chain_from(start: int, below: list[Nodes]) -> Nodes:
    """Return the nodes from `start` down to the first that has no child or several."""
    chain = [start]
    while len(below[chain[-1]]) == 1:
        chain += below[chain[-1]]
    return chain


def _supernodes(parent: Sequence[int], lpr: Sequence[float]) -> Iterator[Nodes]:
    """Yield the supernodes of Algorithms 3 and 6, in calling order."""
    nodes = {i: [i] for i in range(len(parent))}  # supernodes by the index of their first node
    above = dict(enumerate(parent))  # the supernode above, or -1
    while nodes:
        best = max(nodes, key=lambda r: (_mean(nodes[r], lpr), -r))
        taken, target = nodes.pop(best), above[best]
        for r in nodes:
            if above[r] == best:
                above[r] = target
        if target < 0:
            yield taken
        else:
            nodes[target] = nodes[target] + taken


def _merge_blocks(chains: list[list[Nodes]], lpr: Sequence[float]) -> list[Nodes]:
    """Merge lists of blocks, each in order of decreasing mean."""
    left = [list(chain) for chain in chains if chain]
    merged = []
    while left:
        at = max(range(len(left)), key=lambda k: (_mean(left[k][0], lpr), -left[k][0][0]))
        merged.append(left[at].pop(0))
        left = [chain for chain in left if chain]
    return merged
