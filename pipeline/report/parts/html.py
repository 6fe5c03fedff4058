"""Sections as one HTML document that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import time
from importlib.resources import files

import jinja2
from markupsafe import Markup

from pipeline.report.parts.parts import Section
from storage.provenance import package_version


def render(title: str, sections: list[Section]) -> str:
    """HTML of a page; all text of sections is escaped, it loads nothing from elsewhere."""
    folder = files("pipeline.report.parts")
    texts = {
        name: folder.joinpath(f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")
    }
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    digest = base64.b64encode(hashlib.sha256(texts["js"].encode()).digest()).decode()
    return environment.from_string(texts["html"]).render(
        title=title,
        sections=sections,
        style=Markup(texts["css"]),
        script=Markup(texts["js"]),
        digest=digest,
        version=package_version(),
        made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        svg=Markup,
    )
