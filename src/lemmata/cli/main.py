"""All commands in the order of the help, and the entry of the program."""

from __future__ import annotations

import sys

import typer

from lemmata.cli import demo, graphs, learning, measuring, searching, training, workspace
from lemmata.cli.faces import fail
from lemmata.errors import LemmataError

__all__ = ["app", "main"]

app = typer.Typer(
    name="lemmata",
    help="Turn a corpus and its graph into a search engine that speaks its language.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    demo.demo,
    workspace.init,
    workspace.ingest,
    workspace.info,
    workspace.show,
    workspace.doctor,
    training.split,
    training.audit,
    searching.index,
    searching.search,
    searching.similar,
    measuring.evaluate,
    measuring.export_encoder,
    learning.run,
):
    app.command()(command)

graph = typer.Typer(help="Build, enrich and exchange the graph.", no_args_is_help=True, rich_markup_mode=None)
for verb in (
    graphs.build,
    graphs.extract,
    graphs.link,
    graphs.embed,
    graphs.merges,
    graphs.import_,
    graphs.export,
):
    graph.command(verb.__name__.rstrip("_"))(verb)
app.add_typer(graph, name="graph")
mine = typer.Typer(
    help="Mine training data from the corpus and its graph.", no_args_is_help=True, rich_markup_mode=None
)
for miner in (
    training.pairs,
    training.queries,
    training.import_,
    training.triplets,
    training.negatives,
    training.mix,
    training.sets,
    training.export,
):
    mine.command(miner.__name__.rstrip("_"))(miner)
app.add_typer(mine, name="mine")
train = typer.Typer(help="Train an encoder on what was mined.", no_args_is_help=True, rich_markup_mode=None)
for trainer in (learning.pretrain, learning.finetune, learning.pack, learning.models):
    train.command()(trainer)
app.add_typer(train, name="train")


def main() -> None:
    """Run the command line; a user's error is one sentence and exit code 1."""
    try:
        app(standalone_mode=True)
    except LemmataError as error:
        fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away; that is not an error
        sys.exit(0)
    except KeyboardInterrupt:
        fail("stopped; nothing done so far is lost, the same command goes on from here", 130)
