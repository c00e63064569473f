"""Blocks filed by range of means as they are found, so that each range is sorted in the cache.

A block is filed as words: its key, then the nodes that are called after its first, two a word, the
lower half first. The list of a block whose key does not tell its size ends with `END`. Words go to
pages, each of one range, so that nothing need be known of the ranges' sizes beforehand.
"""

from typing import NamedTuple

import numpy as np

from hierlpr._kernels._arrays import Index, Ints, Words
from hierlpr._kernels._jit import inner, kernel
from hierlpr._kernels.keys import LONG, SIZE_BITS
from hierlpr._kernels.layout import KeyBits, SortBits

PAGE = 512  # words; a power of two
END = 0xFFFFFFFF


class Filed(NamedTuple):
    """The blocks of a run of samples, by range: ``range_of[key >> shift]``, which never falls.

    Page ``p`` holds words of range ``owner[p]``; a range fills its pages one after another. `end`
    is where the next word of each range goes, at the begin of a page if there is none yet with
    room. `n_nodes` counts the instances of each range, `n_pages` (one number) the pages in use.
    """

    words: Words
    owner: Index
    end: Ints
    n_nodes: Ints
    n_pages: Ints
    range_of: Index
    shift: int

    @staticmethod
    def empty(n_nodes: int, range_of: Index, shift: int) -> "Filed":
        """Room for the blocks of so many nodes: they take at most a word a node."""
        n_ranges = int(range_of[-1]) + 1
        n_pages = n_nodes // PAGE + n_ranges
        return Filed(
            np.empty(n_pages * PAGE, dtype=np.uint64),
            np.empty(n_pages, dtype=np.int32),
            np.zeros(n_ranges, dtype=np.int64),
            np.zeros(n_ranges, dtype=np.int64),
            np.zeros(1, dtype=np.int64),
            range_of,
            shift,
        )


@inner
def file_row(n_blocks: int, keys: Words, heads: Index, next_node: Index, filed: Filed) -> None:
    """File the blocks of a sample: their keys, their first nodes, and the node after each node."""
    words, owner, end = filed.words, filed.owner, filed.end
    n_nodes, range_of = filed.n_nodes, filed.range_of
    shift = np.uint64(filed.shift)
    n_pages = filed.n_pages[0]
    for b in range(n_blocks):
        word = keys[b]
        r = range_of[word >> shift]
        i = np.int64(heads[b])
        size = np.int64(word) & LONG
        left = size - 1
        if size == LONG:
            size = np.int64(0)
            while i >= 0:
                size += 1
                i = np.int64(next_node[i])
            i = np.int64(heads[b])
            left = size  # with the end
        n_nodes[r] += size
        at = end[r]
        while True:
            if at & (PAGE - 1) == 0:
                at = n_pages * PAGE
                owner[n_pages] = r
                n_pages += 1
            words[at] = word
            at += 1
            if left == 0:
                break
            i = np.int64(next_node[i])
            pair = i & END
            left -= 1
            if left > 0:
                i = np.int64(next_node[i])
                pair |= i << 32
                left -= 1
            word = np.uint64(pair)
        end[r] = at
    filed.n_pages[0] = n_pages


@kernel
def collect(words: Words, pages: Ints, out: Words) -> None:
    """Copy the words of some pages, as many as `out` has room for."""
    for p in range(pages.size):
        begin = p * PAGE
        at = pages[p] * PAGE
        for k in range(min(PAGE, out.size - begin)):
            out[begin + k] = words[at + k]


@kernel
def sort_keys(words: Words, bits: KeyBits, to: SortBits, keys: Words) -> int:
    """Write for every block in `words` its key with its place there instead of sample and size.

    As samples are filed one after another, these keys give the same order. O(words); returns the
    number of blocks.
    """
    low_bits = np.uint64(bits.node + bits.sample + SIZE_BITS)
    node_at = np.uint64(bits.sample + SIZE_BITS)
    node_mask = np.uint64((1 << bits.node) - 1)
    place_bits = np.uint64(to.place)
    depth_at = np.uint64(bits.node + to.place)
    base, drop = np.uint64(to.base), np.uint64(to.drop)
    n_keys = 0
    p = np.int64(0)
    while p < words.size:
        word = words[p]
        depth = ((word >> low_bits) - base) >> drop
        node = (word >> node_at) & node_mask
        keys[n_keys] = (depth << depth_at) | (node << place_bits) | np.uint64(p)
        n_keys += 1
        size = np.int64(word) & LONG
        p += 1 + (size >> 1)
        if size == LONG:
            p -= size >> 1
            pair = np.int64(0)
            while pair & END != END and pair >> 32 != -1:
                pair = np.int64(words[p])
                p += 1
    return n_keys
