"""Hierarchies from and to every format, small files written here."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hierlpr
from cases import write
from hierlpr import Hierarchy
from hierlpr.exceptions import FileError, HierlprWarning
from hierlpr.io import load_hierarchy, read_hierarchy, write_hierarchy
from realdata import DATA, needs_data

OBO = r"""format-version: 1.2
! a comment line

[Term]
id: X:1
name: top\, first {really} ! not part of the name
alt_id: X:10
alt_id: X:11

[Term]
id: X:2
name: left
is_a: X:1 {source="somebody"} ! top

[Term]
id: X:3
name: right
is_a: X:10 ! by its alternative id
relationship: part_of X:2 ! left
relationship: has_part X:4

[Term]
id: X:4
name: elsewhere
relationship: part_of X:1

[Term]
id: X:5
name: gone
is_obsolete: true
is_a: X:1
replaced_by: X:3

[Term]
id: X:6
name: gone too
is_obsolete: true
replaced_by: X:2
replaced_by: X:3

[Typedef]
id: part_of
name: part of
"""


def test_obo_terms_aliases_and_report(tmp_path):
    read = load_hierarchy(write(tmp_path / "x.obo", OBO))
    assert read.hierarchy.labels == ("X:1", "X:2", "X:3", "X:4")
    assert set(read.hierarchy.edges) == {("X:1", "X:2"), ("X:1", "X:3")}
    assert read.aliases == {"X:10": "X:1", "X:11": "X:1", "X:5": "X:3"}
    assert read.hierarchy.name("X:1") == "top, first"
    counts = read.report.counts
    assert (counts["obsolete terms"], counts["replaced terms"]) == (2, 1)
    assert (
        "relationships that are not used as edges: part_of (2), has_part (1)" in read.report.notes
    )


def test_obo_relationships(tmp_path):
    path = write(tmp_path / "x.obo", OBO)
    both = load_hierarchy(path, relationships=["is_a", "part_of"])
    assert both.hierarchy.parents("X:3") == ("X:1", "X:2")
    with pytest.raises(FileError, match="no term has a relationship 'partof'"):
        load_hierarchy(path, relationships=["is_a", "partof"])
    with pytest.raises(FileError, match="only OBO"):
        read_hierarchy(write(tmp_path / "e.csv", "parent,child\nA,B\n"), relationships=["is_a"])


def test_obo_parents_from_another_ontology_are_left_out_and_counted(tmp_path):
    text = (
        "[Term]\nid: CL:1\nis_a: BFO:4 ! material\n\n[Term]\nid: CL:2\nis_a: CL:1\nis_a: UBERON:9\n"
    )
    read = load_hierarchy(write(tmp_path / "cl.obo", "format-version: 1.2\n" + text))
    assert read.hierarchy.edges == (("CL:1", "CL:2"),)
    note = "2 edges to terms of other ontologies are left out: 'BFO:4', 'UBERON:9'"
    assert note in read.report.notes


def test_obo_line_continuation_and_escapes(tmp_path):
    text = "format-version: 1.2\n[Term]\nid: a\\Wb\nname: one \\\ntwo\n[Term]\nid: c\nis_a: a\\Wb\n"
    read = load_hierarchy(write(tmp_path / "x.obo", text))
    assert read.hierarchy.edges == (("a b", "c"),)
    assert read.hierarchy.name("a b") == "one two"


@pytest.mark.parametrize(
    ("stanza", "message"),
    [
        ("[Term]\nid: X:2\nis_a: X:9\n", "line 7: the parent 'X:9' of 'X:2' is not defined"),
        ("[Term]\nid: X:2\nis_a: X:2\n", "line 7: label 'X:2' is its own parent"),
        ("[Term]\nid: X:1\n", "line 5: term 'X:1' is defined again"),
        ("[Term]\nname: nameless\n", "line 5: the .Term. stanza has no id"),
        ("[Term]\nid: X:2\nrelationship: part_of\n", "line 7: relationship 'part_of' is not"),
        ("[Term]\nid: X:2\nnonsense\n", "line 7: 'nonsense' is not a 'tag: value' line"),
        ("[Term]\nid: X:2\nis_a:\n", "line 7: the tag is_a has no value"),
    ],
)
def test_obo_problems_stop_or_are_counted(tmp_path, stanza, message):
    path = write(tmp_path / "x.obo", "format-version: 1.2\n[Term]\nid: X:1\n\n" + stanza)
    with pytest.raises(FileError, match=message):
        read_hierarchy(path)
    with pytest.warns(HierlprWarning, match="skipped"):
        read_hierarchy(path, lenient=True)


def test_edge_lists(tmp_path):
    plain = write(tmp_path / "a.csv", "A,B\nB,C\n,D\n")
    assert read_hierarchy(plain).labels == ("A", "B", "C", "D")
    named = write(tmp_path / "b.tsv", "# why\nchild\tparent\tnote\nB\tA\tx\nB\tA\ty\n")
    read = load_hierarchy(named)
    assert read.hierarchy.edges == (("A", "B"),)
    assert read.report.counts["repeated edges merged"] == 1
    assert any("'note'" in note for note in read.report.notes)
    quoted = write(tmp_path / "c.csv", 'parent,child\n"a, b","say ""x"""\n')
    assert read_hierarchy(quoted).edges == (("a, b", 'say "x"'),)
    zipped = tmp_path / "d.csv.gz"
    zipped.write_bytes(b"A,B\n")  # recognised by its content
    assert read_hierarchy(zipped).edges == (("A", "B"),)
    zipped.write_bytes(gzip.compress(b"\xef\xbb\xbfparent,child\r\nA,B\r\n"))
    assert read_hierarchy(zipped).edges == (("A", "B"),)


def test_reversed_edges_give_a_warning(tmp_path):
    path = write(tmp_path / "r.csv", "parent,child\nB,A\nC,A\nD,A\nE,B\n")
    with pytest.warns(HierlprWarning, match=r"look reversed.*'A' has 3 parents"):
        assert read_hierarchy(path).roots == ("C", "D", "E")
    assert read_hierarchy(write(tmp_path / "c.csv", "a,b\nb,c\nc,d\n")).n_edges == 3


def test_json(tmp_path):
    text = '{"B": "A", "C": ["A", "D"], "E": null}'
    hierarchy = read_hierarchy(write(tmp_path / "h.json", text))
    assert (hierarchy.n_edges, hierarchy.labels) == (3, ("B", "C", "E", "A", "D"))


@pytest.mark.parametrize("sep", ["/", "|", ">", ";", "::", " / "])
def test_path_lists(tmp_path, sep):
    path = write(tmp_path / "p.txt", f"# paths\nA{sep}B{sep}C\nA{sep}D\nE\n")
    read = load_hierarchy(path)
    bare = sep.strip()
    assert read.hierarchy.labels == ("A", f"A{bare}B", f"A{bare}B{bare}C", f"A{bare}D", "E")
    given = load_hierarchy(write(tmp_path / "q.paths", "a.b\na.c\n"), path_sep=".")
    assert given.hierarchy.labels == ("a", "a.b", "a.c")


@pytest.mark.parametrize(
    ("listed", "labels", "edges"),
    [
        ("1,1/1,1/2,2/3", ("1", "1/1", "1/2", "2", "2/3"), 3),
        ("root/a,root/b,a/c,b/c,c/d", ("a", "b", "c", "d"), 3),
        ("1/1,1/2,2/1", ("1", "1/1", "1/2", "2", "2/1"), 3),  # a name that is its own child
    ],
)
def test_arff_headers(tmp_path, listed, labels, edges):
    text = f"% x\n@RELATION 'x'\n@ATTRIBUTE 'a b' REAL\n@attribute class hierarchical {listed}\n"
    found = read_hierarchy(write(tmp_path / "x.arff", text + "@DATA\n1,?\n"))
    assert (found.labels, found.n_edges) == (labels, edges)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@RELATION x\n@ATTRIBUTE a numeric\n@DATA\n1\n", "0 attributes of type hierarchical"),
        ("hello\n", "line 1: 'hello' is not"),
        ("@ATTRIBUTE a hierarchical\n@DATA\n", "line 1: a label"),
        ("@ATTRIBUTE a hierarchical x//y\n@DATA\n", "line 1: .*has no name"),
        ("@ATTRIBUTE a hierarchical x,x/y\n", "no @DATA line"),
    ],
)
def test_bad_arff_headers(tmp_path, text, message):
    with pytest.raises(FileError, match=message):
        read_hierarchy(write(tmp_path / "h.arff", text))


def test_unknown_endings_and_nested_json_are_refused(tmp_path):
    for name in ("x.dat", "x.xlsx"):
        with pytest.raises(FileError, match=r"not read\.\nHint: tables are \.csv"):
            read_hierarchy(write(tmp_path / name, "parent,child\nA,B\n"))
    for text in ('{"name": "A", "children": [5]}', '{"name": "A", "children": [{}]}'):
        with pytest.raises(FileError, match="the node has no name"):
            read_hierarchy(write(tmp_path / "h.json", text))


def test_parquet_edge_lists_are_read_as_text_ones_are(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"Parent": ["A", "A", None], "child": ["B", "C", "D"],
               "relation": ["is_a", "part_of", "is_a"], "synonyms": [["x"], [], None]}  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "h.parquet")
    loaded = load_hierarchy(tmp_path / "h.parquet")
    assert loaded.hierarchy.labels == ("A", "B", "C", "D")
    assert "'relation', 'synonyms'" in loaded.report.notes[0]


VISIBLE = st.characters(codec="utf-8", exclude_categories=["C", "Z"])
NAMES = st.text(VISIBLE, min_size=1, max_size=8)


@st.composite
def hierarchies(draw):
    labels = draw(st.lists(NAMES, min_size=1, max_size=8, unique=True))
    edges = []
    for i in range(1, len(labels)):
        above = draw(st.lists(st.integers(0, i - 1), max_size=3, unique=True))
        edges += [(labels[p], labels[i]) for p in above]
    return Hierarchy(edges, labels=draw(st.permutations(labels)))


@pytest.mark.filterwarnings("ignore:.*look reversed")
@settings(max_examples=60, deadline=None)
@given(hierarchies(), st.sampled_from([".tsv", ".csv", ".parquet", ".csv.gz"]))
def test_round_trips(tmp_path_factory, hierarchy, end):
    path = tmp_path_factory.mktemp("rt") / f"h{end}"
    write_hierarchy(path, hierarchy)
    assert load_hierarchy(path).hierarchy == hierarchy


def test_unsuitable_formats_are_refused(tmp_path):
    for end in (".csv", ".tsv"):
        with pytest.raises(hierlpr.HierlprError, match="line ends"):
            write_hierarchy(tmp_path / f"x{end}", Hierarchy([], labels=["a\nb"]))
    with pytest.raises(hierlpr.HierlprError, match="ending"):
        write_hierarchy(tmp_path / "d.xyz", Hierarchy([("a", "b")]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("h.csv", "parent,child,name\n,A,animal\nA,B,<b>bird</b>\nA,C,\n"),
        ("h.tsv", "name\tchild\tparent\n<b>bird</b>\tB\tA\n\tC\tA\nanimal\tA\t\n"),
        ("h.obo", "[Term]\nid: A\nname: animal\n\n[Term]\nid: B\nname: <b>bird</b>\nis_a: A\n\n"
         "[Term]\nid: C\nname: C\nis_a: A\n"),
    ],
)  # fmt: skip
def test_files_give_names(tmp_path, name, text):
    loaded = load_hierarchy(write(tmp_path / name, text))
    assert dict(loaded.hierarchy.names) == {"A": "animal", "B": "<b>bird</b>"}
    assert not loaded.report.notes
    assert loaded.hierarchy.edges == (("A", "B"), ("A", "C"))


def test_two_names_are_a_problem(tmp_path):
    path = write(tmp_path / "h.csv", "parent,child,name\nA,B,bird\nD,B,bat\n")
    with pytest.raises(
        FileError, match=r"line 3, column 'name': label 'B' also has the name 'bird'"
    ):
        read_hierarchy(path)
    assert load_hierarchy(path, lenient=True).hierarchy.names == {"B": "bird"}


@pytest.mark.parametrize("end", ["csv", "tsv", "parquet", "csv.gz"])
@pytest.mark.parametrize("names", [{"B": "a bird! {x}"}, {"A": '=1+1, "q"', "D": "é ü"}])
def test_formats_with_a_place_for_names_keep_them(tmp_path, end, names):
    # B comes before its parents, and has two of them.
    h = Hierarchy([("A", "B"), ("D", "B"), ("A", "C")], labels=["B", "A", "lone"])
    path = tmp_path / f"h.{end}"
    named = h.with_names(names)
    write_hierarchy(path, named)
    found = read_hierarchy(path)
    assert (found.labels, set(found.edges)) == (h.labels, set(h.edges))
    assert found.names == named.names
    write_hierarchy(path, h)
    assert not read_hierarchy(path).names


@needs_data
def test_real_hierarchies():
    assert read_hierarchy(DATA / "go/edges.tsv.gz").n_labels == 43_558
    slim = load_hierarchy(DATA / "obo/goslim_generic.obo", relationships=["is_a", "part_of"])
    assert slim.hierarchy.n_labels == 149
    assert len(slim.aliases) == 58
    assert read_hierarchy(DATA / "cafa/IDPO_disorder_function.obo").n_labels == 20


# -- files of other tools -----------------------------------------------------------------------

NESTED = {"name": "Entity", "children": [{"name": "Toy", "children": ["Doll"]}]}
OPEN_IMAGES = {"LabelName": "/m/0", "Subcategory": [{"LabelName": "/m/1"}, {"LabelName": "/m/2"}]}
OBOGRAPHS = {
    "graphs": [
        {
            "nodes": [
                {"id": "http://x.org/obo/CL_1", "type": "CLASS", "lbl": "cell"},
                {"id": "http://x.org/obo/CL_2", "type": "CLASS"},
                {"id": "http://x.org/obo/GO_3", "type": "CLASS"},
                {"id": "http://x.org/obo/CL_9", "type": "CLASS", "meta": {"deprecated": True}},
                {"id": "http://x.org/obo/RO_4", "type": "PROPERTY"},
            ],
            "edges": [
                {"sub": "http://x.org/obo/CL_2", "pred": "is_a", "obj": "http://x.org/obo/CL_1"},
                {"sub": "http://x.org/obo/CL_2", "pred": "is_a", "obj": "http://x.org/obo/GO_3"},
                {"sub": "http://x.org/obo/CL_2", "pred": "part_of", "obj": "http://x.org/obo/CL_1"},
            ],
        }
    ]
}
NODES = "1\t|\t1\t|\tno rank\t|\t\t|\n2\t|\t1\t|\tsuperkingdom\t|\t\t|\n"
SCIENTIFIC = "2\t|\tBacteria\t|\t\t|\tscientific name\t|\n2\t|\teubacteria\t|\t\t|\tsynonym\t|\n"


def test_nested_trees_and_obographs(tmp_path):
    h = read_hierarchy(write(tmp_path / "h.json", json.dumps(NESTED)))
    assert h.edges == (("Entity", "Toy"), ("Toy", "Doll"))
    h = read_hierarchy(write(tmp_path / "h.json", json.dumps(OPEN_IMAGES)))
    assert h.edges == (("/m/0", "/m/1"), ("/m/0", "/m/2"))
    path = write(tmp_path / "h.json", json.dumps(OBOGRAPHS))
    loaded = load_hierarchy(path)
    assert loaded.hierarchy.edges == (("CL:1", "CL:2"), ("GO:3", "CL:2"))
    assert loaded.hierarchy.names == {"CL:1": "cell"}
    assert "1 edges other than is_a" in loaded.report.notes[0]
    loaded = load_hierarchy(path, prefix="CL:")
    assert loaded.hierarchy.labels == ("CL:1", "CL:2")
    assert loaded.report.counts["labels with other prefixes left out"] == 1
    with pytest.raises(FileError, match="no label begins with 'XX:'"):
        load_hierarchy(path, prefix="XX:")
    with pytest.raises(FileError, match="the node has no name"):
        load_hierarchy(write(tmp_path / "h.json", '{"name": "A", "children": [{"size": 1}]}'))


def test_tables_of_identifiers_and_parents(tmp_path):
    text = "parent_taxon_id,taxon_id,rank_level,name\n,1,70,Animalia\n1,2,60,Chordata\n"
    h = read_hierarchy(write(tmp_path / "t.csv", text))
    assert (h.edges, h.names) == ((("1", "2"),), {"1": "Animalia", "2": "Chordata"})
    h = read_hierarchy(write(tmp_path / "t.csv", "id,parentID,name\n2,1,x\n1,,y\n"))
    assert h.edges == (("1", "2"),)


def test_the_taxonomy_of_ncbi(tmp_path):
    path = write(tmp_path / "nodes.dmp", NODES)
    assert "no names.dmp" in load_hierarchy(path).report.notes[0]
    names = write(tmp_path / "names.dmp", SCIENTIFIC)
    h = read_hierarchy(path)
    assert (h.edges, h.names) == ((("1", "2"),), {"2": "Bacteria"})
    with pytest.raises(FileError, match=r"give nodes\.dmp"):
        read_hierarchy(names)


def test_codes_whose_prefixes_are_the_hierarchy(tmp_path):
    path = write(tmp_path / "icd.csv", "code,title\nA00,Cholera\nA00.01,x\nA00.0,y\nB1,z\n")
    h = read_hierarchy(path, prefixes=True)
    assert set(h.edges) == {("A00", "A00.0"), ("A00.0", "A00.01")}
    assert h.names["A00"] == "Cholera"
    with pytest.raises(FileError, match="'B1' occurs twice"):
        read_hierarchy(write(tmp_path / "icd.txt", "B1\nB1\n"), prefixes=True)


def test_what_is_hardly_a_hierarchy_is_questioned(tmp_path):
    many = write(tmp_path / "codes.txt", "".join(f"A{i}\n" for i in range(200)))
    with pytest.warns(HierlprWarning, match="none of its 200 labels has a parent(.|\n)*prefixes"):
        read_hierarchy(many)
    deep = write(tmp_path / "deep.txt", "/".join("abcdefgh" * 6))
    with pytest.warns(HierlprWarning, match="its longest path has 48 labels"):
        read_hierarchy(deep)
    with pytest.raises(FileError, match="columns separated by tabs"):
        read_hierarchy(write(tmp_path / "t.txt", "s1\tA;B\t0.5\ns2\tA;C\t0.5\n"))
    report = write(tmp_path / "m.txt", "#mpa_v30\nk__B\t100\nk__B|p__F\t50\n")
    with pytest.raises(FileError, match=r"abundance table .MetaPhlAn"):
        read_hierarchy(report)
    rows = "".join(f"c{i},title {i}\n" for i in range(5))
    with pytest.warns(HierlprWarning, match="no two of its edges have a label in common"):
        read_hierarchy(write(tmp_path / "codes.csv", f"code,title\n{rows}"))
    bracken = "name\ttaxonomy_id\ttaxonomy_lvl\tfraction\nE\t562\tS\t0.1\n"
    with pytest.raises(FileError, match=r"abundance table .Bracken"):
        read_hierarchy(write(tmp_path / "b.tsv", bracken))


def test_trees_of_names_and_several_trees(tmp_path):
    for text in (
        '{"A": {"B": {}, "C": {"D": null}}, "E": {}}',
        '[{"name": "A", "children": ["B", {"name": "C", "children": {"D": {}}}]}, {"name": "E"}]',
    ):
        h = read_hierarchy(write(tmp_path / "t.json", text))
        assert set(h.edges) == {("A", "B"), ("A", "C"), ("C", "D")}
        assert h.roots == ("A", "E")
