"""The command line: parse, call, print. Heavy imports wait inside the commands."""

import click

from hierlpr import __version__
from hierlpr.cli._evaluate import evaluate, report
from hierlpr.cli._examples import demo, reproduce, simulate
from hierlpr.cli._fit import fit
from hierlpr.cli._hierarchy import discover, inspect
from hierlpr.cli._rank import check, rank, sets
from hierlpr.cli._shell import Group

__all__ = ["main"]


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: hierlpr demo",
)
@click.version_option(__version__, prog_name="hierlpr")
def main() -> None:
    """Rank and decide hierarchical multi-label calls, with a cutoff you can trust.

    You have scores from any classifiers (samples x labels), a label hierarchy, and truth for some
    samples. `fit` learns how precise each score is and where to cut; `rank` lists the calls of
    new samples, best first, never a label before its parents.

    Data go to stdout or files, messages to stderr. Exit code 0: done; 2: bad input or usage,
    with one message that says what and where; 1: anything else.
    """


for _command in (
    demo,
    inspect,
    fit,
    rank,
    sets,
    check,
    evaluate,
    report,
    discover,
    simulate,
    reproduce,
):
    main.add_command(_command)
