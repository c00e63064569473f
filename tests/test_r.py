"""The page for users of R, run by R where it can be had."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import docscode

PAGE = docscode.ROOT / "docs" / "how-to-r.md"
# What a user of R has before: results of DADA2, and scores of cell types.
TAXA = """
lines <- read.delim(gzfile("{its}"), nrows = 600)
names <- strsplit(lines$Taxon, ";")
chances <- strsplit(as.character(lines$Confidence), ";")
ranks <- c("Kingdom", "Phylum", "Class", "Order", "Family", "Genus", "Species")
matrix_of <- function(x) t(sapply(x, function(each) each[1:7]))
taxa <- list(tax = matrix_of(names), boot = 100 * apply(matrix_of(chances), 2, as.numeric))
dimnames(taxa$tax) <- dimnames(taxa$boot) <- list(lines[[1]], ranks)
known <- data.frame(sample = lines[[1]], taxon = lines$Truth)
"""
CELLS = """
set.seed(1)
types <- c("CD4", "CD8", "B cell")
type <- sample(types, 400, TRUE)
scores <- sapply(types, function(t) rnorm(400) + 3 * (type == t))
scores <- as.data.frame(exp(scores) / rowSums(exp(scores)), check.names = FALSE)
scores[["T cell"]] <- scores$CD4 + scores$CD8
scores$immune <- 1
"""


CHECKS = """
stopifnot(is.data.frame(calls), all(sapply(calls, is.logical)))
stopifnot(mean(answer$label == type[!rows]) > 0.5)
"""
# An old reticulate does not know NumPy 2.
NEEDS_RETICULATE = "tryCatch(reticulate::r_to_py(matrix(1)), error = function(e) quit(status = 77))"


def run(folder: Path, code: str) -> str:
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.skip("R is not installed")
    (folder / "page.R").write_text(code, encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [rscript, "--vanilla", "page.R"], cwd=folder, capture_output=True, text=True,
        env=os.environ | {"PATH": path, "RETICULATE_PYTHON": sys.executable},
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("R has no reticulate that works with this NumPy")
    assert done.returncode == 0, done.stderr
    return done.stdout


def blocks() -> list[str]:
    page = PAGE.read_text(encoding="utf-8")
    return [block.body for block in docscode.blocks(page) if block.lang == "r"]


def test_dada2_by_files(tmp_path):
    its = docscode.ROOT / "examples" / "data" / "its_known.tsv.gz"
    printed = run(tmp_path, TAXA.format(its=its.as_posix()) + blocks()[0])
    assert "Genus" in printed or "genus" in printed
    assert (tmp_path / "named.csv").read_text().startswith("sample,name,path,rank,chance")


def test_scores_with_reticulate(tmp_path):
    code = "\n".join([NEEDS_RETICULATE, CELLS, blocks()[1], CHECKS])
    assert "CD4" in run(tmp_path, code)
    assert (tmp_path / "cells.hlpr").exists()
