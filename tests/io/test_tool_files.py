"""Every real file of other tools is read, or refused with the right reason."""

import pytest

from hierlpr.assignment import learn_names
from hierlpr.exceptions import FileError
from hierlpr.io import load_hierarchy, read_scores, read_truth
from hierlpr.io.predictions import read_predictions
from realdata import DATA, needs_data

pytestmark = needs_data
TOOLS = DATA / "tools"
PREDICTIONS = {  # format, samples, labels
    "b1_rdp.txt.gz": ("qiime1", 2310, 1602),
    "b1_real.sintax.gz": ("sintax", 2310, 1551),
    "birdnet_example.csv": ("windows", 66, 8),
    "blca.out": ("blca", 100, 345),
    "mmc_results.csv": ("mapmycells", 46, 17),
}
HIERARCHIES = {  # labels, edges
    "cl_blood.json.gz": (1079, 1477),
    "cl_blood.obo.gz": (1078, 1477),
    "inat_taxonomy.csv": (29, 27),
    "nodes.dmp": (39, 38),
    "oi_hierarchy.json": (612, 668),
}
REFUSED = [
    (read_predictions, "camtrapdp_observations.csv", "names without confidences .Camtrap DP"),
    (read_predictions, "wi_images.csv", "names without confidences .Wildlife Insights"),
    (read_predictions, "ref_taxa.qza", "names alone, as of a reference database"),
    (read_predictions, "b1_truth.tsv.gz", "format is not recognised"),
    (read_predictions, "cl_blood.json.gz", "has no label with a confidence"),
    (load_hierarchy, "names.dmp", r"give nodes\.dmp"),
    (load_hierarchy, "b1_rdp.txt.gz", "columns separated by tabs"),
    (read_scores, "blca.out", "hierlpr assign reads the files of other tools"),
    (read_scores, "oi_hierarchy.json", "has no label with a confidence"),
    (read_scores, "birdnet_example.csv", "first column is 'Start"),
]


@pytest.mark.parametrize("name", PREDICTIONS)
def test_predictions(name):
    read = read_predictions(TOOLS / name)
    assert (read.format, len(read.samples), read.hierarchy.n_labels) == PREDICTIONS[name]


@pytest.mark.parametrize("name", HIERARCHIES)
def test_hierarchies(name):
    hierarchy = load_hierarchy(TOOLS / name).hierarchy
    assert (hierarchy.n_labels, hierarchy.n_edges) == HIERARCHIES[name]


@pytest.mark.parametrize(("read", "name", "message"), REFUSED)
def test_other_files_are_refused_with_the_reason(read, name, message):
    with pytest.raises(FileError, match=message):
        read(TOOLS / name)


@pytest.mark.parametrize("name", ["b1_rdp.txt.gz", "b1_real.sintax.gz"])
def test_species_are_named_although_they_are_spelled_in_two_ways(name):
    done = learn_names(TOOLS / name, TOOLS / "b1_truth.tsv.gz", error=0.1)
    species = next(row for row in done.ranks if row.rank == "species")
    assert species.named > 0.75
    assert species.correct > 0.88
    assert done.wrong <= 0.1


def test_cells_keep_one_ontology():
    loaded = load_hierarchy(TOOLS / "cl_blood.obo.gz", prefix="CL:")
    assert all(label.startswith("CL:") for label in loaded.hierarchy.labels)
    assert len(loaded.report.notes) <= 2


def test_label_studio_is_no_wide_truth():
    with pytest.raises(FileError, match=r"no list of tasks"):
        read_truth(TOOLS / "oi_hierarchy.json", load_hierarchy(TOOLS / "nodes.dmp").hierarchy)
