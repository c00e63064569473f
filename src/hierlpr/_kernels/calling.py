"""One range of filed blocks -> its instances in calling order."""

from typing import NamedTuple

import numpy as np

from hierlpr._kernels._arrays import Bools, Floats, Index, Ints, Places, Words
from hierlpr._kernels._jit import kernel
from hierlpr._kernels.filing import END
from hierlpr._kernels.keys import LONG, SIZE_BITS, find_node, on_grid, only_mean
from hierlpr._kernels.layout import KeyBits, Rows, SortBits


class _Loose(NamedTuple):
    """Keys that exact means put in another order: their places, where their runs begin, means."""

    at: Ints
    run: Ints
    mean: Floats

    @staticmethod
    def empty(size: int) -> "_Loose":
        """Room for so many."""
        return _Loose(np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size))


class Listed(NamedTuple):
    """Instances in calling order: place in the input matrix, whether a block begins, LPR.

    `lpr` is empty where all samples hold all labels: there the place tells it.
    """

    place: Places
    first: Bools
    lpr: Floats


@kernel
def _find_loose(
    keys: Words, words: Words, rows: Rows, bits: KeyBits, to: SortBits, loose: _Loose
) -> int:
    """Find sorted keys that tie in the bits of the mean they hold, but not by falling exact mean.

    One pass over the keys, and one over the blocks that tie and whose mean their keys do not tell.
    Returns the number of loose keys: as many of them as there is room for are written.
    """
    told = np.empty(LONG)  # means of blocks by size, of the depth `told_of`
    told_of = np.full(LONG, -1)
    low_bits = np.uint64(bits.node + bits.sample + SIZE_BITS)
    depth_at = np.uint64(bits.node + to.place)
    place_mask = (1 << to.place) - 1
    sample_mask = (1 << bits.sample) - 1
    node_mask = (1 << bits.node) - 1
    n_loose = 0
    begin = 0
    while begin < keys.size:
        end = begin + 1
        while end < keys.size and keys[end] >> depth_at == keys[begin] >> depth_at:
            end += 1
        if end == begin + 1:
            begin = end
            continue
        falling = True
        previous = np.inf
        for k in range(begin, end):
            p = np.int64(keys[k]) & place_mask
            depth = np.int64(words[p] >> low_bits)
            low = np.int64(words[p])
            size = low & LONG
            mean = np.nan
            if size < LONG:
                if told_of[size] != depth:
                    told_of[size] = depth
                    told[size] = only_mean(np.uint64(depth), int(size), bits)
                mean = told[size]
            if np.isnan(mean):
                m = (low >> SIZE_BITS) & sample_mask
                i = (low >> (SIZE_BITS + bits.sample)) & node_mask
                row = m * rows.slot.size
                if rows.node_of.size > 0:
                    row = rows.row_ptr[m]
                    i = find_node(rows.node_of, row, rows.row_ptr[m + 1], int(i))
                total = on_grid(rows.value[row + rows.slot[i]], rows.scale)
                count = 1
                for half in range(size - 1 if size < LONG else 2 * words.size):
                    i = (np.int64(words[p + 1 + (half >> 1)]) >> ((half & 1) << 5)) & END
                    if i == END:
                        break
                    total += on_grid(rows.value[row + rows.slot[i]], rows.scale)
                    count += 1
                mean = total / count
            falling &= mean <= previous
            previous = mean
            at = n_loose + k - begin
            if at < loose.at.size:
                loose.at[at] = k
                loose.run[at] = begin
                loose.mean[at] = mean
        if not falling:
            n_loose += end - begin
        begin = end
    return n_loose


def settle_ties(keys: Words, words: Words, rows: Rows, bits: KeyBits, to: SortBits) -> None:
    """Order sorted keys that tie in the bits of the mean they hold by the exact mean, in place.

    The order of node and sample decides among exact ties, as the sort is stable.
    """
    loose = _Loose.empty(1024)
    n_loose = _find_loose(keys, words, rows, bits, to, loose)
    if n_loose > loose.at.size:
        loose = _Loose.empty(n_loose)
        _find_loose(keys, words, rows, bits, to, loose)
    if n_loose:
        at, run, mean = (array[:n_loose] for array in loose)
        keys[at] = keys[at[np.lexsort((-mean, run))]]


@kernel
def write_order(
    keys: Words, words: Words, at: int, rows: Rows, bits: KeyBits, to: SortBits, column: Index,
    listed: Listed,
) -> None:  # fmt: skip
    """Write the instances of sorted blocks to `listed`, from place `at` on; O(instances).

    ``column`` are the columns of the input matrix by number. Nowhere in `listed` does a block begin
    yet.
    """
    place_mask = (1 << to.place) - 1
    sample_mask = (1 << bits.sample) - 1
    node_mask = (1 << bits.node) - 1
    n_labels = column.size
    dense = rows.node_of.size == 0
    for k in range(keys.size):
        p = np.int64(keys[k]) & place_mask
        low = np.int64(words[p])
        m = (low >> SIZE_BITS) & sample_mask
        i = (low >> (SIZE_BITS + bits.sample)) & node_mask
        first = m * n_labels
        row = first
        listed.place[at] = first + column[i]
        listed.first[at] = True
        if not dense:
            row = rows.row_ptr[m]
            i = find_node(rows.node_of, row, rows.row_ptr[m + 1], int(i))
            listed.lpr[at] = rows.value[row + i]
        at += 1
        size = low & LONG
        for half in range(size - 1 if size < LONG else 2 * words.size):
            i = (np.int64(words[p + 1 + (half >> 1)]) >> ((half & 1) << 5)) & END
            if i == END:
                break
            number = i
            if not dense:
                listed.lpr[at] = rows.value[row + i]
                number = np.int64(rows.node_of[row + i])
            listed.place[at] = first + column[number]
            at += 1
