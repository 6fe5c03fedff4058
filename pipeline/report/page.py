"""The page of a cube: its sections, in order, and its legend, in one HTML file that needs nothing else."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from sweep_clustering.pipeline.common import Progress, silent
from sweep_clustering.pipeline.report import against, cell, effort, scores, variants, winners
from sweep_clustering.pipeline.report.content import Content, Section, write_chapters
from sweep_clustering.pipeline.report.elements import MOST_NAMES, WORDS, enumeration
from sweep_clustering.pipeline.report.figures import USUAL, house_style
from sweep_clustering.pipeline.scoring.scores import QUALITIES
from sweep_clustering.sweeps.words import SHIPPED, chooses, is_any, is_model, shape_of, split_model

# Results come first, and what made them last. To add a section, add a row with a function in the module of
# its subject, which returns its paragraphs, tables and figures. A section that `needs` refuses, or that has
# no part, has no place. Sections take scores from the catalogue, and models and designs from their looks, so
# they need not know new ones. fmt: off
SECTIONS = (
    Section("winners", "Who wins", winners.standing),
    Section("designs", "How the pairs were chosen", variants.designs, needs=lambda content: content.designs),
    Section(
        "searches",
        "How solutions were searched for",
        variants.searches,
        needs=lambda content: content.searches,
    ),
    Section(
        "labels",
        "Among published labels",
        against.ranks_beside_labels,
        needs=lambda content: content.published is not None,
    ),
    Section("kinds", "Ranks by p, m and kind of data", winners.kinds),
    Section("curves", "NMI, ARI and KL divergence against annotations", scores.curves, says_why=True),
    Section("scores", "Scores", scores.means),
    Section("relative", "Relative NMI", scores.relative, says_why=True),
    Section("index", "Centroid index", scores.index, says_why=True),
    Section("robustness", "Robustness to wrong annotations", winners.robustness),
    Section("duels", "Wins, ties and losses", winners.duels, needs=lambda content: content.ranked),
    Section("cost", "Score against time", winners.cost),
    Section(
        "against",
        "Beside the published values",
        against.beside,
        needs=lambda content: content.compared is not None,
    ),
    Section("agreement", "Correct annotations", scores.agreement, says_why=True),
    Section(
        "choices",
        scores.choice_title,
        scores.choices,
        needs=lambda content: content.chooses or content.holds_out,
    ),
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
    """Write the page and its figures, and return the files; `progress` goes through the sections."""
    # the result comes after the design and the search that it holds for
    lead = (
        *effort.single_variants(content.manifest, content.chosen),
        *winners.headline(content.ranked),
        *variants.design_headline(content.designs),
        " ".join(effort.state(content)),
    )
    sections = (
        (
            section.key,
            section.title if isinstance(section.title, str) else section.title(content),
            section.parts(content),
            section.says_why,
        )
        for section in progress(SECTIONS, "sections of the page")
        if section.needs(content)
    )
    with house_style(content.manifest.plans):
        name = content.manifest.spec.name
        return [path, *write_chapters(path, name, sections, lead, formats, legend(content))]


def legend(content: Content) -> Iterator[tuple[str, str]]:
    """Yield each word of the page that a new reader needs, with its meaning in this cube."""
    texts, spec = WORDS["legend"], content.manifest.spec
    accuracies = enumeration([f"p = {p:g}" for p in spec.grid.p])
    if accuracies:
        yield "p", texts["p"].format(values=accuracies)
        yield "m", texts["m"].format(values=enumeration([f"m = {count.text}" for count in spec.grid.m]))
    yield "cell", texts["cell"]
    most = max((plan.restarts for plan in content.manifest.plans.values()), default=0)
    yield "restart", texts["restart"].format(restarts=f"{most} restarts" if most > 1 else "restarts")
    models = list(content.cells["model"].unique())
    meanings = [f"{model}: {model_words(model)}" for model in models[: MOST_NAMES + 2]]
    if meanings:
        more = len(models) - len(meanings)
        yield "models", "; ".join(meanings) + (f"; and {more} more." if more else ".")
    computed = set(content.summary["score"])
    scores = [texts[score] for score in QUALITIES if score in computed and score in texts]
    if scores:
        yield "scores", " ".join(scores)


def model_words(model: str) -> str:
    """Describe a model or a method in a few words."""
    if not is_model(model):
        return SHIPPED[model].text if model in SHIPPED else "a user-defined method"
    term, _ = split_model(model)
    if is_any(model):
        shape = "classes of one Gaussian or several"
    elif chooses(model):
        shape = "covariances as held-out annotations choose"
    else:
        shape = f"{shape_of(model)} covariances"
    return f"{WORDS['terms'][term]}, {shape}"
