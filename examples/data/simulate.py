"""Simulate predictions in the formats of SpeciesNet and MapMyCells, with the true names.

``python examples/data/simulate.py`` writes the files beside this script. The names are real, the
images, the cells and their confidences are not: a real classifier may do better or worse.
"""

import gzip
import json
import uuid
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
ANIMALS = """\
mammalia;carnivora;felidae;panthera;leo;lion
mammalia;carnivora;felidae;panthera;pardus;leopard
mammalia;carnivora;felidae;leptailurus;serval;serval
mammalia;carnivora;canidae;lupulella;mesomelas;black-backed jackal
mammalia;carnivora;canidae;lupulella;adusta;side-striped jackal
mammalia;carnivora;hyaenidae;crocuta;crocuta;spotted hyaena
mammalia;carnivora;hyaenidae;hyaena;hyaena;striped hyaena
mammalia;cetartiodactyla;bovidae;aepyceros;melampus;impala
mammalia;cetartiodactyla;bovidae;eudorcas;thomsonii;thomson's gazelle
mammalia;cetartiodactyla;bovidae;nanger;granti;grant's gazelle
mammalia;cetartiodactyla;bovidae;tragelaphus;oryx;common eland
mammalia;cetartiodactyla;bovidae;tragelaphus;scriptus;bushbuck
mammalia;cetartiodactyla;suidae;phacochoerus;africanus;common warthog
mammalia;perissodactyla;equidae;equus;quagga;plains zebra
mammalia;perissodactyla;equidae;equus;grevyi;grevy's zebra
aves;galliformes;numididae;numida;meleagris;helmeted guineafowl
aves;galliformes;numididae;acryllium;vulturinum;vulturine guineafowl
aves;struthioniformes;struthionidae;struthio;camelus;common ostrich
;;;;;blank""".splitlines()
CELLS = {
    "01 IT-ET Glut": {"007 L2/3 IT CTX Glut": 4, "022 L5 ET CTX Glut": 3},
    "06 CTX-CGE GABA": {"046 Vip Gaba": 4, "049 Lamp5 Gaba": 3},
    "07 CTX-MGE GABA": {"052 Pvalb Gaba": 3, "053 Sst Gaba": 5},
    "30 Astro-Epen": {"319 Astro-TE NN": 3, "323 Ependymal NN": 2},
    "31 OPC-Oligo": {"326 OPC NN": 2, "327 Oligo NN": 4},
}


def write(name, text):
    """Write a gzip file without a time in it, so that equal content gives equal bytes."""
    (HERE / name).write_bytes(gzip.compress(text.encode(), mtime=0))


def images(rng, n, name):
    """Return SpeciesNet predictions and COCO Camera Traps annotations of `n` images."""
    space = uuid.UUID(int=0)
    classes = [f"{uuid.uuid5(space, text)};{text}" for text in ANIMALS]
    ranks = [text.split(";")[:5] for text in ANIMALS]
    shared = (
        np.array([[sum(x == y for x, y in zip(a, b, strict=False)) for b in ranks] for a in ranks])
        / 5.0
    )
    true = rng.choice(len(ANIMALS), n, p=np.r_[np.full(18, 0.8 / 18), 0.2])
    clear = rng.uniform(3.0, 14.0, (n, 1))  # how much of the animal can be seen
    logit = clear * shared[true] + 2.2 * rng.standard_normal((n, len(ANIMALS)))
    scores = np.exp(1.4 * logit) / np.exp(1.4 * logit).sum(axis=1, keepdims=True)
    predictions, annotations = [], []
    for i in range(n):
        top = np.argsort(-scores[i])[:5]
        listed = [round(float(x), 4) for x in scores[i, top]]
        predictions.append({
            "filepath": f"{name}/{i:04d}.jpg",
            "classifications": {"classes": [classes[k] for k in top], "scores": listed},
            "prediction": classes[top[0]], "prediction_score": listed[0],
            "prediction_source": "classifier", "model_version": "4.0.1a",
        })  # fmt: skip
        annotations.append({"id": str(i), "image_id": str(i), "category_id": int(true[i])})
    names = [text.rpartition(";")[2].replace("blank", "empty") for text in ANIMALS]
    truth = {
        "images": [{"id": str(i), "file_name": x["filepath"]} for i, x in enumerate(predictions)],
        "categories": [{"id": k, "name": text} for k, text in enumerate(names)],
        "annotations": annotations,
    }
    return json.dumps({"predictions": predictions}, indent=1), json.dumps(truth, indent=1)


def cells(rng, n, name):
    """Return MapMyCells results of `n` cells as CSV, and their true cell types."""
    paths = [
        (kind, subclass, f"{subclass.split()[0]}{i:02d} {' '.join(subclass.split()[1:])}_{i + 1}")
        for kind, parts in CELLS.items()
        for subclass, n_types in parts.items()
        for i in range(n_types)
    ]
    levels = ("class", "subclass", "supertype")
    codes = [sorted({path[i] for path in paths}) for i in range(3)]
    columns = [f"{x}_{y}" for x in levels for y in ("label", "name", "bootstrapping_probability")]
    lines = ["# metadata = map.json", f"cell_id,{','.join(columns)}"]
    truth = ["cell_id,cell_type"]
    for i in range(n):
        path = paths[rng.integers(len(paths))]
        depth = rng.uniform(0.0, 1.0)  # how many genes were found in the cell
        right = 1.0 - (1.0 - depth) * np.array([0.15, 0.3, 0.7])
        n_right = int(np.argmin([*(rng.random(3) < right), False]))
        others = [
            x for x in paths if x[:n_right] == path[:n_right] and x[n_right:] != path[n_right:]
        ]
        true = others[rng.integers(len(others))] if n_right < 3 and others else path
        row = [f"{name}{i:05d}"]
        for level, text in enumerate(path):
            code = f"CS20230722_{levels[level][:4].upper()}_{codes[level].index(text):03d}"
            given = min(1.0, right[level] ** 0.5 + 0.05 * rng.standard_normal())
            row += [code, text, f"{max(given, 0.1):.2f}"]
        lines.append(",".join(row))
        truth.append(f"{row[0]},{';'.join(true)}")
    return "\n".join(lines) + "\n", "\n".join(truth) + "\n"


if __name__ == "__main__":
    rng = np.random.default_rng(7)
    for make, known, new, kind in (
        (images, "images_known.json.gz", "images_new.json.gz", "images_truth.json.gz"),
        (cells, "cells_known.csv.gz", "cells_new.csv.gz", "cells_truth.csv.gz"),
    ):
        predictions, truth = make(rng, 1200, "known")
        write(known, predictions)
        write(kind, truth)
        write(new, make(rng, 300, "new")[0])
