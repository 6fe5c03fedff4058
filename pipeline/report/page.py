"""The page of a cube: its sections, in order, in one HTML file that needs nothing else."""

from collections.abc import Sequence
from pathlib import Path

from sweep_clustering.pipeline.common import Progress, silent
from sweep_clustering.pipeline.report import against, cell, effort, kinds, scores, variants, winners
from sweep_clustering.pipeline.report.content import Content, Section, write_chapters
from sweep_clustering.pipeline.report.figures import USUAL
from sweep_clustering.pipeline.report.legend import legend
from sweep_clustering.pipeline.report.look import house_style

# Results first, what made them last. To add a section: a row here, with a function of the content that gives
# its paragraphs, tables and figures, in the module of its subject. What `needs` refuses, or what shows
# nothing, has no place on the page. Of scores, models and designs a section shows those of the catalogue and
# of the looks, so that it need not know of new ones. `--golden` of the tests writes anew what pages show:
# read it.
# fmt: off
SECTIONS = (
    Section("winners", "Who wins", winners.standing),
    Section("designs", "How the pairs were chosen", variants.designs,
            needs=lambda content: content.designs),
    Section("searches", "How solutions were searched for", variants.searches,
            needs=lambda content: content.searches),
    Section("labels", "Among published labels", against.labels_beside,
            needs=lambda content: content.published is not None),
    Section("kinds", "Ranks by p, m and kind of data", kinds.kinds),
    Section("curves", "NMI, ARI and KL divergence against annotations", scores.curves, says_why=True),
    Section("scores", "Scores", scores.means),
    Section("relative", "Relative NMI", scores.relative, says_why=True),
    Section("index", "Centroid index", scores.index, says_why=True),
    Section("robustness", "Robustness to wrong annotations", winners.robustness),
    Section("duels", "Wins, ties and losses", winners.duels, needs=lambda content: content.ranked),
    Section("cost", "Score against time", winners.cost),
    Section("against", "Beside the published values", against.beside,
            needs=lambda content: content.compared is not None),
    Section("agreement", "Correct annotations", scores.agreement, says_why=True),
    Section("choices", scores.choice_title, scores.choices,
            needs=lambda content: content.chooses or content.holds_out),
    Section("cell", "One cell", cell.partitions, says_why=True),
    Section("failures", "Failures", effort.failures),
    Section("restarts", "Restarts", effort.restarts),
    Section("times", "Time", effort.times),
    Section("head", "What ran", effort.head),
)
# fmt: on


def write_page(
    content: Content, path: Path, formats: Sequence[str] = USUAL, progress: Progress = silent
) -> list[Path]:
    """Write the page and its figures.

    Parameters
    ----------
    content : Content
        What to show.
    path : Path
        Of the page.
    formats : sequence of str
        Of the figures, as `figures.save` takes them.
    progress : callable
        Goes through the sections.

    Returns
    -------
    list of Path
        What was written.
    """
    # what is found, after what it is found about where there are several designs or searches
    lead = (
        *effort.of_one(content.manifest, content.chosen),
        *winners.headline(content.ranked),
        *variants.design_headline(content.designs),
        " ".join(effort.state(content)),
    )
    shown = (
        (
            each.key,
            each.title if isinstance(each.title, str) else each.title(content),
            each.shows(content),
            each.says_why,
        )
        for each in progress(SECTIONS, "sections of the page")
        if each.needs(content)
    )
    with house_style(content.manifest.plans):
        name = content.manifest.spec.name
        return [path, *write_chapters(path, name, shown, lead, formats, legend(content))]
