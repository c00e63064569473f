"""The command line: each command parses its options, calls the library and prints the result."""

import click

from hierlpr import __version__
from hierlpr.cli._shell import LazyGroup

__all__ = ["main"]

# Module and summary of every command, in the order of the help. A module is imported when its
# command is used; the summaries are here so that `hierlpr --help` needs none of them.
_COMMANDS = {
    "demo": ("_examples", "Run an example end to end, with a report."),
    "inspect": ("_hierarchy", "Print size, depth, roots and problems of a hierarchy."),
    "fit": ("_fit", "Learn from samples with known labels, and choose a cutoff."),
    "rank": ("_predict", "Rank all (sample, label) instances and mark the calls."),
    "sets": ("_predict", "Find the sure and possible labels of every sample."),
    "assign": ("_assign", "Name every sample at the deepest rank that can be trusted."),
    "check": ("_predict", "Compare new scores with those of the fit."),
    "audit": ("_audit", "Certify calls on your own samples by checking a few of them."),
    "evaluate": ("_hierarchy", "Measure a ranking and its calls against the truth."),
    "report": ("_predict", "Write one self-contained HTML page about a model."),
    "discover": ("_hierarchy", "Reject labels by their p-values with a controlled FDR."),
    "simulate": ("_examples", "Write a simulated hierarchy, scores and truth."),
    "reproduce": ("_examples", "Repeat the paper's studies."),
}


@click.group(
    cls=LazyGroup,
    commands_in=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: hierlpr demo",
)
@click.version_option(__version__, prog_name="hierlpr")
def main() -> None:
    """Rank and decide hierarchical multi-label calls, with a cutoff you can trust.

    You have scores from any classifier (samples x labels), a label hierarchy, and truth for some
    samples. `fit` learns the chance of each label given its score, and chooses a cutoff; `rank`
    lists the labels of new samples, best first, with no label before its parents, and marks those
    above the cutoff.

    Data go to stdout or files, messages to stderr. Exit code 0: done; 2: bad input or usage,
    with one message that says what and where; 1: anything else.
    """
