"""Six lines for a reader who never saw the tool: what p, m, cell, restart, the models and the scores are."""

from collections.abc import Iterator

from sweep_clustering.pipeline.report.content import Content
from sweep_clustering.pipeline.report.elements import MOST_NAMES, WORDS, listed
from sweep_clustering.pipeline.scoring.scores import QUALITIES
from sweep_clustering.sweeps.words import SHIPPED, chooses, is_any, is_model, shape_of, split_model


def legend(content: Content) -> Iterator[tuple[str, str]]:
    """Each word of the page with its meaning, by what this cube has.

    Parameters
    ----------
    content : Content
        What the page shows.
    """
    said, spec = WORDS["legend"], content.manifest.spec
    accuracies = listed([f"p = {p:g}" for p in spec.grid.p])
    if accuracies:
        yield "p", said["p"].format(values=accuracies)
        yield "m", said["m"].format(values=listed([f"m = {count.text}" for count in spec.grid.m]))
    yield "cell", said["cell"]
    most = max((plan.restarts for plan in content.manifest.plans.values()), default=0)
    yield "restart", said["restart"].format(restarts=f"{most} restarts" if most > 1 else "restarts")
    models = list(content.cells["model"].unique())
    shown = [f"{model}: {model_words(model)}" for model in models[: MOST_NAMES + 2]]
    more = len(models) - len(shown)
    if shown:
        yield "models", "; ".join(shown) + (f"; and {more} more." if more else ".")
    found = set(content.summary["score"])
    scores = [said[score] for score in QUALITIES if score in found and score in said]
    if scores:
        yield "scores", " ".join(scores)


def model_words(model: str) -> str:
    """What a model is, or a method, in a few words."""
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
