"""Algorithms 1 to 6 of the HierLPR paper, as printed, for reading and for testing against.

Every function takes one sample's forest as `parent` (the number of each node's parent, -1 for
roots; parents have smaller numbers than their children) and its `lpr`, and returns node numbers
in calling order. They follow the paper step by step and cost up to O(K^3): use
`hierlpr.rank` for work. Where the print leaves a choice or needs a correction, the function
says so. All of them share one rule for ties: a larger mean first, then the smaller number of
the sequence's first node; the shortest of equally good prefixes.

References
----------
Ho, Ye, Jiang, Lee and Huang, HierLPR, key ``ho2018hierlpr``; Baraniuk and Jones (1994), key
``baraniuk1994``; Bi and Kwok (2011), key ``bi2011`` in ``docs/references.bib``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

Nodes = list[int]


def chain_merge(chains: Sequence[Nodes], lpr: Sequence[float]) -> Nodes:
    """Algorithm 1: merge chains by taking off, again and again, the best prefix of any chain."""
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

    Read: a node goes back to P as long as it has more than one child. As merging two of three
    chains makes one chain whose prefixes are the blocks of both, the order of the pairs does
    not matter.
    """
    below = _chains_below(parent)
    roots = [i for i in range(len(parent)) if parent[i] < 0]
    for v in reversed(range(len(parent))):  # P in the end holds all that branch, the deepest first
        while len(below[v]) > 1:
            first, second = (_full_chain(r, below) for r in below[v][:2])
            merged = chain_merge([first, second], lpr)
            _relink(merged, below)
            below[v] = [merged[0], *below[v][2:]]
    return chain_merge([_full_chain(r, below) for r in roots], lpr)


def hierlpr_condensing(parent: Sequence[int], lpr: Sequence[float]) -> Nodes:
    """Algorithm 3: condense the best supernode into its parent, or take it off if it has none.

    Inside a supernode the parent's sequence comes first, then the child's.
    """
    nodes = {i: [i] for i in range(len(parent))}  # supernodes by the number of their first node
    above = dict(enumerate(parent))  # the supernode above, or -1
    order: Nodes = []
    while nodes:
        best = max(nodes, key=lambda r: (_mean(nodes[r], lpr), -r))
        if above[best] < 0:
            taken = nodes.pop(best)
            order += taken
            for r in nodes:
                if above[r] == best:
                    above[r] = -1
        else:
            _condense(best, nodes, above)
    return order


def breaking_points(chain: Nodes, lpr: Sequence[float]) -> list[Nodes]:
    """Equation of the breaking points: part a chain into blocks of falling mean.

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
    """Algorithm 5: Algorithm 2 on blocks, each chain parted only once.

    Read: the chain that ends in v and standalone chains are parted into blocks too.
    """
    below = _chains_below(parent)
    blocks: dict[int, list[Nodes]] = {}  # of the chain that starts at a node
    is_head = [p < 0 or len(below[p]) > 1 for p in parent]
    for r in range(len(parent) - 1, -1, -1):
        if not is_head[r]:
            continue
        chain = [r]
        while len(below[chain[-1]]) == 1:
            chain.append(below[chain[-1]][0])
        lower = _merge_blocks([blocks[c] for c in below[chain[-1]]], lpr)
        blocks[r] = agglomerate(breaking_points(chain, lpr), lower, lpr)
    merged = _merge_blocks([blocks[r] for r in range(len(parent)) if parent[r] < 0], lpr)
    return [node for block in merged for node in block]


def cssa(parent: Sequence[int], lpr: Sequence[float], n_calls: float) -> list[float]:
    """Algorithm 6, CSSA: how far each node is selected when `n_calls` may be spent.

    The last supernode is selected by the fraction that is left of `n_calls`, as the relaxed
    problem allows. Each root of a forest hangs from an imagined node 0 that is always
    selected and not counted.
    """
    selected = [0.0] * len(parent)
    nodes = {i: [i] for i in range(len(parent))}
    above = dict(enumerate(parent))
    spent = 0.0
    while spent < n_calls and nodes:
        best = max(nodes, key=lambda r: (_mean(nodes[r], lpr), -r))
        if above[best] >= 0:
            _condense(best, nodes, above)
            continue
        taken = nodes.pop(best)
        for node in taken:
            selected[node] = min(1.0, (n_calls - spent) / len(taken))
        spent += len(taken)
        for r in nodes:
            if above[r] == best:
                above[r] = -1
    return selected


def _mean(nodes: Nodes, lpr: Sequence[float]) -> Fraction:
    """Exact, so that ties are ties."""
    return sum((Fraction(lpr[i]) for i in nodes), Fraction(0)) / len(nodes)


def _chains_below(parent: Sequence[int]) -> list[Nodes]:
    below: list[Nodes] = [[] for _ in parent]
    for i, p in enumerate(parent):
        if p >= 0:
            below[p].append(i)
    return below


def _full_chain(start: int, below: list[Nodes]) -> Nodes:
    chain = [start]
    while below[chain[-1]]:
        chain.append(below[chain[-1]][0])
    return chain


def _relink(chain: Nodes, below: list[Nodes]) -> None:
    for upper, lower in pairwise(chain):
        below[upper] = [lower]
    below[chain[-1]] = []


def _condense(best: int, nodes: dict[int, Nodes], above: dict[int, int]) -> None:
    target = above[best]
    nodes[target] = nodes[target] + nodes.pop(best)
    for r in nodes:
        if above[r] == best:
            above[r] = target


def _merge_blocks(chains: list[list[Nodes]], lpr: Sequence[float]) -> list[Nodes]:
    """Merge block lists that each fall already, k-way."""
    left = [list(chain) for chain in chains if chain]
    merged = []
    while left:
        at = max(range(len(left)), key=lambda k: (_mean(left[k][0], lpr), -left[k][0][0]))
        merged.append(left[at].pop(0))
        left = [chain for chain in left if chain]
    return merged
