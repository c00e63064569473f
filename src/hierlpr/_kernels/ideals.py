"""The best order inside a block that is no tree: reductions, then a program over closed sets."""

import numpy as np

from hierlpr._kernels._arrays import Index, Ints
from hierlpr._kernels._jit import inner, kernel

TABLE_BITS = 16  # of the hash table of closed sets: room for twice the usual cap
MOST_NODES = 1 << 15  # areas of blocks up to this size fit 63 bits
MOST_BITSETS = 2048  # up to this size, edges implied by others are taken out first
MOST_ROUNDS = 200
MIX = np.uint64(0x9E3779B97F4A7C15)
MIX_AGAIN = np.uint64(0xBF58476D1CE4E5B9)


@inner
def _reduce_modules(
    value: Ints, up_ptr: Ints, up_idx: Index
) -> tuple[Index, Index, Ints, Ints, Index]:
    """Merge nodes into jobs that some best order calls without a break.

    Nodes with the same parents and the same children are called by falling mean; a node whose
    only child has no other parent forms a chain with it, and jobs of a chain merge where the mean
    rises (Lawler, 1978). Both are modules, so some best order keeps their order (Sidney and
    Steiner, 1986).

    Returns ``follow``: the node after each node in its job, or -1; ``job``: the first node of each
    job, parents first; ``size`` of each job; and the jobs' parents as a CSR pair.
    """
    n = value.size
    follow = np.full(n, -1, np.int32)
    end = np.arange(n).astype(np.int32)  # last node of a job, by its first node
    size = np.ones(n, np.int64)
    total = value.copy()
    after = np.full(n, -1, np.int32)  # the next job of the same chain, by first node
    prior = np.full(n, -1, np.int32)  # and the one before
    last = np.arange(n).astype(np.int32)  # last job of a chain, by its first node
    chief = np.arange(n).astype(np.int32)  # the chain a merged chain has become part of
    first = np.arange(n).astype(np.int32)  # first job of a chain
    ptr = up_ptr.copy()
    idx = up_idx.copy()
    if n <= MOST_BITSETS:
        n_words = (n + 63) // 64
        above = np.zeros((n, n_words), np.uint64)
        one = np.uint64(1)
        n_kept = 0
        for i in range(n):
            begin = n_kept
            # Insertion sort, as elsewhere here: lists of parents are short.
            row = up_idx[up_ptr[i] : up_ptr[i + 1]].copy()
            for k in range(1, row.size):
                p = row[k]
                j = k
                while j > 0 and row[j - 1] > p:
                    row[j] = row[j - 1]
                    j -= 1
                row[j] = p
            for k in range(row.size - 1, -1, -1):
                p = row[k]
                if (above[i, p >> 6] >> np.uint64(p & 63)) & one:
                    continue
                for word in range(n_words):
                    above[i, word] |= above[p, word]
                above[i, p >> 6] |= one << np.uint64(p & 63)
                idx[n_kept] = p
                n_kept += 1
            ptr[i] = begin
            for k in range((n_kept - begin) // 2):
                p = idx[begin + k]
                idx[begin + k] = idx[n_kept - 1 - k]
                idx[n_kept - 1 - k] = p
        ptr[n] = n_kept
        idx = idx[:n_kept].copy()
    alive = np.arange(n).astype(np.int32)
    n_parents = np.zeros(n, np.int32)
    n_children = np.zeros(n, np.int32)
    only_child = np.empty(n, np.int32)
    key = np.empty(n, np.uint64)
    touched = np.zeros(n, np.bool_)
    renamed = np.empty(n, np.int32)
    for _ in range(MOST_ROUNDS):
        # Names: alive[k] is the chain with the k-th smallest name; ptr and idx go by k.
        m = alive.size
        for k in range(m):
            key[k] = np.uint64(0)
            n_children[k] = 0
            touched[k] = False
        for k in range(m):
            n_parents[k] = ptr[k + 1] - ptr[k]
            name = (np.uint64(k + 1) * MIX) ^ (np.uint64(k + 1) * MIX >> np.uint64(29))
            for e in range(ptr[k], ptr[k + 1]):
                p = idx[e]
                n_children[p] += 1
                only_child[p] = k
                key[p] += name * MIX_AGAIN
                parent_name = np.uint64(p + 1) * MIX_AGAIN
                key[k] += (parent_name ^ (parent_name >> np.uint64(31))) * MIX
        down_ptr = np.zeros(m + 1, np.int64)
        for k in range(m):
            down_ptr[k + 1] = down_ptr[k] + n_children[k]
        down = np.empty(idx.size, np.int32)
        fill = down_ptr[:m].copy()
        for k in range(m):
            for e in range(ptr[k], ptr[k + 1]):
                down[fill[idx[e]]] = k
                fill[idx[e]] += 1
        merged = False
        # Twins have equal keys: look each one up among those that came before.
        n_slots = 4
        while n_slots < 2 * m:
            n_slots *= 2
        seen = np.full(n_slots, -1, np.int32)
        for b in range(m):
            h = np.int64(key[b] & np.uint64(n_slots - 1))
            while seen[h] >= 0:
                a = seen[h]
                h = (h + 1) & (n_slots - 1)
                if key[a] != key[b]:
                    continue
                same = n_parents[a] == n_parents[b] and n_children[a] == n_children[b]
                if same:
                    for e in range(n_parents[a]):
                        same &= idx[ptr[a] + e] == idx[ptr[b] + e]
                    for e in range(n_children[a]):
                        same &= down[down_ptr[a] + e] == down[down_ptr[b] + e]
                if not same:
                    continue
                # Twins: merge the two chains by falling mean; ties to the chain with less name.
                x, y = alive[a], alive[b]
                p, q = first[x], first[y]
                head = np.int32(-1)
                tail = np.int32(-1)
                while p >= 0 or q >= 0:
                    take_p = q < 0 or (p >= 0 and total[p] * size[q] >= total[q] * size[p])
                    if take_p:
                        taken = p
                        p = after[p]
                    else:
                        taken = q
                        q = after[q]
                    if tail < 0:
                        head = taken
                    else:
                        after[tail] = taken
                    prior[taken] = tail
                    tail = taken
                after[tail] = -1
                first[x] = head
                last[x] = tail
                chief[y] = x
                touched[a] = True
                touched[b] = True
                merged = True
                break
            if chief[alive[b]] == alive[b]:
                seen[h] = b
        for k in range(m):
            if touched[k] or n_children[k] != 1:
                continue
            c = only_child[k]
            if touched[c] or n_parents[c] != 1:
                continue
            # A chain: append the child's jobs, and merge while the mean rises.
            x, y = alive[k], alive[c]
            while chief[x] != x:
                x = chief[x]
            q = first[y]
            while q >= 0:
                following = after[q]
                u, v = last[x], q
                while u >= 0 and total[v] * size[u] > total[u] * size[v]:
                    follow[end[u]] = v
                    end[u] = end[v]
                    size[u] += size[v]
                    total[u] += total[v]
                    v = u
                    u = prior[u]
                if v == q:
                    after[u] = v
                    prior[v] = u
                after[v] = -1
                last[x] = v
                q = following
            chief[y] = x
            merged = True
        if not merged:
            break
        # Rename what is left; edges between merged chains are gone, doubled ones are dropped.
        n_left = 0
        for k in range(m):
            x = alive[k]
            if chief[x] == x:
                renamed[x] = n_left
                n_left += 1
        n_edges = 0
        new_alive = np.empty(n_left, np.int32)
        new_ptr = np.zeros(n_left + 1, np.int64)
        new_idx = np.empty(idx.size, np.int32)
        # A chain keeps the parents of its first part: twins share theirs.
        n_left = 0
        for k in range(m):
            x = alive[k]
            if chief[x] != x:
                continue
            new_alive[n_left] = x
            begin = n_edges
            for e in range(ptr[k], ptr[k + 1]):
                p = alive[idx[e]]
                while chief[p] != p:
                    p = chief[p]
                p = renamed[p]
                known = False
                for f in range(begin, n_edges):
                    known |= new_idx[f] == p
                if not known:
                    f = n_edges
                    while f > begin and new_idx[f - 1] > p:
                        new_idx[f] = new_idx[f - 1]
                        f -= 1
                    new_idx[f] = p
                    n_edges += 1
            n_left += 1
            new_ptr[n_left] = n_edges
        alive = new_alive
        ptr = new_ptr
        idx = new_idx[:n_edges].copy()
    # List the jobs chain by chain: chains are in topological order, so jobs are as well.
    m = alive.size
    n_jobs = 0
    for k in range(m):
        q = first[alive[k]]
        while q >= 0:
            renamed[q] = n_jobs
            n_jobs += 1
            q = after[q]
    job = np.empty(n_jobs, np.int32)
    job_size = np.empty(n_jobs, np.int64)
    job_ptr = np.zeros(n_jobs + 1, np.int64)
    job_idx = np.empty(idx.size + n_jobs, np.int32)
    n_edges = 0
    j = 0
    for k in range(m):
        q = first[alive[k]]
        while q >= 0:
            job[j] = q
            job_size[j] = size[q]
            if q == first[alive[k]]:
                for e in range(ptr[k], ptr[k + 1]):
                    job_idx[n_edges] = renamed[last[alive[idx[e]]]]
                    n_edges += 1
            else:
                job_idx[n_edges] = j - 1
                n_edges += 1
            j += 1
            job_ptr[j] = n_edges
            q = after[q]
    return follow, job, job_size, job_ptr, job_idx[:n_edges].copy()


@kernel
def best_order(
    value: Ints,
    up_ptr: Ints,
    up_idx: Index,
    state_cap: int,
    table: Index,
    order: Index,
) -> bool:
    """Write the order of largest area, parents first, unless that takes over `state_cap` states.

    The area of an order is the sum of its running sums. If a closed set is called first, the best
    way to call it does not depend on the rest: a program over closed sets, by size. They are
    coded as places along chains of jobs. `table` has ``2 ** TABLE_BITS`` entries, all -1 before
    and after. Returns False if nothing was written.
    """
    n = value.size
    if n > MOST_NODES:
        return False
    follow, job, size, ptr, idx = _reduce_modules(value, up_ptr, up_idx)
    n_jobs = job.size
    state_cap = min(state_cap, (1 << TABLE_BITS) // 2)
    if n_jobs > state_cap:
        return False
    total = np.zeros(n_jobs, np.int64)
    for j in range(n_jobs):
        i = job[j]
        while i >= 0:
            total[j] += value[i]
            i = follow[i]
    # Chains: a job continues the chain of a parent that ends one, the latest if there are several.
    chain = np.empty(n_jobs, np.int32)
    place = np.empty(n_jobs, np.int32)
    ends = np.zeros(n_jobs, np.bool_)
    chain_len = np.zeros(n_jobs, np.int64)
    n_chains = 0
    for j in range(n_jobs):
        pick = -1
        for e in range(ptr[j], ptr[j + 1]):
            if ends[idx[e]] and idx[e] > pick:
                pick = idx[e]
        ends[j] = True
        if pick >= 0:
            ends[pick] = False
            chain[j] = chain[pick]
        else:
            chain[j] = n_chains
            n_chains += 1
        place[j] = chain_len[chain[j]]
        chain_len[chain[j]] += 1
    stride = np.empty(n_chains + 1, np.int64)
    stride[0] = 1
    for c in range(n_chains):
        if float(stride[c]) * (chain_len[c] + 1) > 4e18:
            return False
        stride[c + 1] = stride[c] * (chain_len[c] + 1)
    begin = np.zeros(n_chains + 1, np.int64)
    for c in range(n_chains):
        begin[c + 1] = begin[c] + chain_len[c]
    member = np.empty(n_jobs, np.int32)
    for j in range(n_jobs):
        member[begin[chain[j]] + place[j]] = j

    code = np.empty(state_cap + 1, np.int64)
    area = np.empty(state_cap + 1, np.int64)
    running = np.empty(state_cap + 1, np.int64)
    before = np.empty(state_cap + 1, np.int32)
    latest = np.empty(state_cap + 1, np.int32)
    slot = np.empty(state_cap + 1, np.int32)
    at = np.empty(n_chains, np.int64)
    mask = (1 << TABLE_BITS) - 1
    shift = np.uint64(64 - TABLE_BITS)
    code[0] = area[0] = running[0] = 0
    before[0] = latest[0] = slot[0] = -1
    n_states = 1
    s = 0
    # Invariant: states are in order of the number of jobs called, so state s is final here.
    while s < n_states and n_states <= state_cap:
        for c in range(n_chains):
            at[c] = (code[s] // stride[c]) % (chain_len[c] + 1)
        for c in range(n_chains):
            if at[c] == chain_len[c]:
                continue
            j = member[begin[c] + at[c]]
            free = True
            for e in range(ptr[j], ptr[j + 1]):
                if at[chain[idx[e]]] <= place[idx[e]]:
                    free = False
                    break
            if not free:
                continue
            next_code = code[s] + stride[c]
            next_area = area[s] + size[j] * running[s]
            h = np.int64((np.uint64(next_code) * MIX) >> shift)
            while table[h] >= 0 and code[table[h]] != next_code:
                h = (h + 1) & mask
            t = table[h]
            if t < 0:
                if n_states > state_cap:
                    continue
                t = n_states
                table[h] = t
                slot[t] = h
                code[t] = next_code
                running[t] = running[s] + total[j]
                n_states += 1
            elif area[t] >= next_area:
                continue
            area[t] = next_area
            before[t] = s
            latest[t] = j
        s += 1
    for t in range(1, n_states):
        table[slot[t]] = -1
    if n_states > state_cap:
        return False
    place_in_order = n
    t = n_states - 1  # all jobs called: the largest state, found last
    while t > 0:
        j = latest[t]
        place_in_order -= size[j]
        k = place_in_order
        i = job[j]
        while i >= 0:
            order[k] = i
            k += 1
            i = follow[i]
        t = before[t]
    return True
