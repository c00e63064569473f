"""Tables as messy as people make them, from a seed: what two ways of reading must agree on."""

import gzip
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hierlpr import Hierarchy

LABELS = ("A", "B, C", "sample", "001", "1", "é🙂", 'q"uote', "two lines", "#hash", "label")
H = Hierarchy(
    [("A", "B, C"), ("A", "sample"), ("sample", "001"), ("sample", "1"), ("B, C", "é🙂"),
     ("B, C", 'q"uote'), ("two lines", "#hash")],
    labels=LABELS,
)  # fmt: skip
NAMES = (
    "s1", "001", "1", " lead", "x true", "ACCURACY", "MODEL", "END", "AUTHOR", "NA", "null", "nan",
    'a"b', "c,d", "tab\tbed", "e\nf", "g\n#h", "#s", "🙂", "true", "0.5", "?", "é",
    "s 2", '"', "''", "-", "=1+1", "sample",
)  # fmt: skip
NUMBERS = ("0.5", ".5", "+0.3", "1e-320", "5.", "1E-3", "0", "-0.0", "1e5", "0.1234567890123456789",
           " 0.25 ", "-2", "00.7", "1e-400", "0.30000000000000004")  # fmt: skip
FLAGS = ("0", "1", "1.0", "true", "False", " 1", "0.0", "TRUE")
BAD_NUMBERS = ("x", "1_0", "nan", "", "?", "inf", "-Infinity", "1e400", "0x1", "\uff11", "1,5",
               "--1", "1e", "N/A")  # fmt: skip


def messy_file(seed, content):
    """Return the ending, the bytes, and whether to read them leniently."""
    rng = np.random.default_rng([seed, len(content)])
    lenient = bool(rng.random() < 0.6)
    n_problems = int(rng.integers(0, 5)) if lenient else int(rng.random() < 0.5)
    layout = str(rng.choice(["wide", "long", "cafa"] if content != "ranking" else ["long", "cafa"]))
    header, rows = _rows(rng, content, layout)
    if layout != "cafa" and rng.random() < 0.15:
        return "parquet", _parquet(rng, header, rows, layout, n_problems), lenient
    for _ in range(n_problems):
        _spoil(rng, rows, content, layout)
    end = "tsv" if layout == "cafa" else str(rng.choice(["csv", "tsv"]))
    raw = _text(rng, header, rows, layout, "\t" if end == "tsv" else ",", n_problems)
    if rng.random() < 0.1:
        return f"{end}.gz", gzip.compress(raw, mtime=0), lenient
    return end, raw, lenient


def _rows(rng, content, layout):
    """Header, and rows of texts."""
    n = int(rng.integers(1, 12))
    names = [str(x) for x in rng.choice(NAMES, n, replace=False)]
    value = lambda: str(rng.choice(FLAGS if content == "truth" else NUMBERS))  # noqa: E731
    if layout == "wide":
        labels = [str(x) for x in rng.permutation(LABELS)]
        closed = lambda: ["1"] * len(LABELS) if rng.random() < 0.3 else ["0"] * len(LABELS)  # noqa: E731
        rows = [[name, *(closed() if content == "truth" else [value() for _ in labels])]
                for name in names]  # fmt: skip
        return ["sample" if rng.random() < 0.9 else "", *labels], rows
    pairs = [(name, label) for name in names for label in LABELS if rng.random() < 0.6]
    if rng.random() < 0.2:
        pairs = [(name, label) for name in names for label in LABELS]
    if rng.random() < 0.4:
        pairs = [pairs[i] for i in rng.permutation(len(pairs))]
    if content == "ranking" and layout == "long":
        rows = [[str(i + 1), s, x, "0.5", f"{1 - i / 500:.3f}", str(rng.integers(0, 2))]
                for i, (s, x) in enumerate(pairs)]  # fmt: skip
        return ["rank", "sample", "label", "lpr", "score", "call"], rows
    if content == "truth":
        with_value = layout == "long" and rng.random() < 0.4
        rows = [[*pair, *([value()] if with_value else [])] for pair in pairs]
        return ["sample", "label", *(["value"] if with_value else [])], rows
    further = layout == "long" and rng.random() < 0.3
    rows = [[*pair, value(), *(["note"] if further else [])] for pair in pairs]
    return ["sample", "label", "score", *(["remark"] if further else [])], rows


def _spoil(rng, rows, content, layout):
    """Put one problem into a row, or a row with a problem between the others."""
    if not rows:
        return
    at = int(rng.integers(len(rows)))
    row = list(rows[at])
    kind = int(rng.integers(8))
    place = int(rng.integers(len(row))) if layout == "wide" else len(row) - 1
    sample = 1 if content == "ranking" and layout == "long" else 0
    if kind == 0:
        row[place] = str(rng.choice(BAD_NUMBERS))
    elif kind == 1 and len(row) > 1:
        row = row[:-1]
    elif kind == 2:
        row.append("more")
    elif kind == 3:
        row[sample] = str(rng.choice(["", " ", "\u2003", "\t "]))
    elif kind == 4:
        rows.insert(int(rng.integers(len(rows) + 1)), list(row))
        return
    elif kind == 5 and layout != "wide":
        row[sample + 1] = str(rng.choice(["Q", "a", "", " ", "A "]))
    elif kind == 6:
        row = ["\x01UNCLOSED"]
    else:
        row[place] = str(rng.choice(["2", "0.5", "-1"]))
    rows[at] = row


def _cell(rng, text, delimiter, is_first):
    needed = any(c in text for c in (delimiter, "\n", "\r")) or text[:1] == '"'
    if needed or (is_first and text[:1] == "#") or rng.random() < 0.1:
        return '"' + text.replace('"', '""') + '"'
    return text


def _text(rng, header, rows, layout, delimiter, n_problems):
    end = str(rng.choice(["\n", "\r\n"]))
    mixed = rng.random() < 0.1
    out = io.StringIO()

    def line(text):
        out.write(text + (str(rng.choice(["\n", "\r\n"])) if mixed else end))

    def noise():
        if rng.random() < 0.1:
            line(str(rng.choice(["# a comment", "#", '# "quoted', "", "", "   ", "#,,,,"])))

    if layout == "cafa" and rng.random() < 0.4:
        for text in ("AUTHOR somebody", "MODEL 1", "KEYWORDS a, b", "ACCURACY 1 PR=0.5; RC=0.4"):
            line(text)
    noise()
    if layout != "cafa":
        line(delimiter.join(_cell(rng, x, delimiter, i == 0) for i, x in enumerate(header)))
    for row in rows:
        noise()
        if row[0] == "\x01UNCLOSED":
            line(str(rng.choice(['"open,1', 'x,"open', '"a"b,1', '"'])))
            continue
        line(delimiter.join(_cell(rng, x, delimiter, i == 0) for i, x in enumerate(row)))
    if layout == "cafa" and rng.random() < 0.4:
        line("END")
    raw = out.getvalue().encode()
    if rng.random() < 0.2:
        raw = raw.rstrip(b"\r\n")
    if rng.random() < 0.2:
        raw = b"\xef\xbb\xbf" + raw
    if n_problems and rng.random() < 0.06:
        at = int(rng.integers(len(raw)))
        raw = raw[:at] + bytes(rng.choice([b"\xff", b"\xc3("])) + raw[at:]
    return raw


def _parquet(rng, header, rows, layout, n_problems):
    texts = {0} if layout == "wide" else {
        i for i, name in enumerate(header) if name in ("sample", "label", "remark")
    }  # fmt: skip
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in header]
    arrays = []
    for i, column in enumerate(columns):
        if i in texts:
            array = pa.array(column, pa.string())
            arrays.append(array.dictionary_encode() if rng.random() < 0.5 else array)
        else:
            flag = {"true": 1.0, "false": 0.0}
            numbers = [
                flag[x.strip().lower()] if x.strip().lower() in flag else float(x) for x in column
            ]
            arrays.append(pa.array(numbers, pa.float64()))
    for _ in range(n_problems if rows else 0):
        i, row = int(rng.integers(len(arrays))), int(rng.integers(len(rows)))
        values = arrays[i].to_pylist()
        if isinstance(values[row], str):
            values[row] = [None, " ", values[0]][int(rng.integers(3))]
        else:
            values[row] = [None, float("nan"), 7.5, float("inf")][int(rng.integers(4))]
        arrays[i] = pa.array(values, arrays[i].type)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays, names=header), sink, row_group_size=int(rng.integers(1, 9)))
    return sink.getvalue().to_pybytes()
