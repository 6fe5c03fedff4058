"""Sections as one HTML document that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files

import jinja2
from markupsafe import Markup

from pipeline.report.parts.ink import VARIABLES
from pipeline.report.parts.parts import Section
from storage.provenance import package_version

STYLED = re.compile(r'(<[a-zA-Z][^<>]*?) style="([^"]*)"')
OFTEN = 3
"""Elements of a style that share a class of the page."""


def render(title: str, sections: list[Section], lead: Sequence[str] = ()) -> str:
    """HTML of a page; all text of sections is escaped, it loads nothing from elsewhere.

    Parameters
    ----------
    title : str
        Of the page.
    sections : list of Section
        In order.
    lead : sequence of str
        Paragraphs before the first of them: what is found, and how much of it is there.
    """
    folder = files("pipeline.report.parts")
    texts = {
        name: folder.joinpath(f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")
    }
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    digest = base64.b64encode(hashlib.sha256(texts["js"].encode()).digest()).decode()
    svgs, ink = _classes([picture.svg for section in sections for picture in section.pictures])
    shown = iter(svgs)
    return environment.from_string(texts["html"]).render(
        title=title,
        sections=sections,
        lead=lead,
        style=Markup(texts["css"]),
        ink=Markup(ink),
        palette=json.dumps({name: color for color, name in VARIABLES.items()}),
        script=Markup(texts["js"]),
        digest=digest,
        version=package_version(),
        made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        next_svg=lambda: Markup(next(shown)),
    )


def _classes(svgs: list[str]) -> tuple[list[str], str]:
    """The figures with a class in the place of each style that they repeat, and the rules of these."""
    counts = Counter(style for svg in svgs for _, style in STYLED.findall(svg))
    names = {style: f"f{place}" for place, (style, n) in enumerate(counts.most_common()) if n >= OFTEN}

    def named(found: re.Match[str]) -> str:
        name = names.get(found[2])
        return f'{found[1]} class="{name}"' if name else found[0]

    rules = "\n".join(f".{name} {{{style}}}" for style, name in names.items())
    return [STYLED.sub(named, svg) for svg in svgs], rules
