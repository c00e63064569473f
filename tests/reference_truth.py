"""Slow twins of what follows from truth of which some is unknown."""

from fractions import Fraction


def complete(row, parents):
    """Apply the rules to one sample: values 0, 1 or None, parents by number; None: contradiction.

    Only single steps along edges, again and again until nothing changes.
    """
    row = list(row)
    changed = True
    while changed:
        changed = False
        for child, above in enumerate(parents):
            for parent in above:
                if row[child] == 1 and row[parent] == 0:
                    return None
                if row[child] == 1 and row[parent] is None:
                    row[parent], changed = 1, True
                if row[parent] == 0 and row[child] is None:
                    row[child], changed = 0, True
    return row


def weights(given, parents, label):
    """Unscaled weights of the samples for a label, as fractions, from what was given alone."""
    known = [complete(row, parents) for row in given]
    above = parents[label]
    away = [any(row[p] == 0 for p in above) for row in known]
    there = [all(row[p] == 1 for p in above) for row in given]
    other = [not (a or t) for a, t in zip(away, there, strict=True)]
    is_given = [row[label] is not None for row in given]
    both = [t and g for t, g in zip(there, is_given, strict=True)]
    loose = [o and g for o, g in zip(other, is_given, strict=True)]
    share = Fraction(1)
    if any(other) and any(both):
        share = min(share, Fraction(sum(loose) * sum(there), sum(other) * sum(both)))
    stands = [Fraction(1)] * len(given)
    if share < 1 and len(above) == 1:
        stands = [share + (1 - share) * w for w in weights(given, parents, above[0])]
    factor = Fraction(0)
    if any(both):
        factor = sum(s for s, t in zip(stands, there, strict=True) if t)
        factor /= sum(s for s, b in zip(stands, both, strict=True) if b)
    out = []
    for i, s in enumerate(stands):
        if away[i]:
            out.append(s)
        elif both[i]:
            out.append(s * factor)
        elif loose[i]:
            most = Fraction(sum(there), sum(both)) if any(both) else None
            own = Fraction(sum(other), sum(loose))
            out.append(own if most is None else min(own, most))
        else:
            out.append(Fraction(0))
    return out
