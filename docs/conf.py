"""Configuration of the documentation: `python .ci/docs docs/_build/html` builds it.

Neither the build nor its pages load anything from elsewhere: no intersphinx, no CDN, no web font. Code cells
are executed, and a warning of any kind is an error.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import files
from importlib.metadata import version as installed_version
from pathlib import Path

# `! sweep ...` in a code cell is the command of the environment that builds, activated or not.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
# Commands print text, not the progress bar of a terminal.
os.environ |= {"TTY_COMPATIBLE": "0", "NO_COLOR": "1", "COLUMNS": "100"}

# A command that fails ends the build, unless its line ends in `|| true`.
settings = Path(__file__).with_name("_build") / "ipython" / "profile_default" / "ipython_config.py"
settings.parent.mkdir(parents=True, exist_ok=True)
settings.write_text("c.InteractiveShell.system_raise_on_error = True\n")
os.environ["IPYTHONDIR"] = str(settings.parents[1])

# MathJax in one file, with glyphs as SVG paths: it loads neither fonts nor anything else.
MATHJAX = next(file for file in files("sphinx-mathjax-offline") or () if file.name == "tex-svg.js")

project = "sweep"
copyright = "the authors of sweep"
version = release = installed_version("sweep-clustering")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc", "sphinx_click"]
# repeat.md is a page; the folder of that name holds what it is built from.
exclude_patterns = ["_build", "repeat"]
nitpicky = True

# Two hyphens of an option stay two hyphens.
smartquotes = False

html_theme = "pydata_sphinx_theme"
html_title = f"sweep {version}"
html_static_path = ["static", str(MATHJAX.locate())]
html_css_files = ["sweep.css"]
html_sidebars = dict.fromkeys(("index", "model", "design", "repeat"), ())
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "sweep"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    # Colours of code with enough contrast on either background.
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "github-dark",
}
mathjax_path = MATHJAX.name
# The menu of an equation offers fonts and speech from a CDN.
mathjax3_config = {"options": {"enableMenu": False}}

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

# Every cell runs at every build, in an empty folder of its page; what it writes to stderr is a warning.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600
# This page submits to a SLURM, which `.ci/docs` starts.
nb_execution_excludepatterns = [] if "SLURM_CONF" in os.environ else ["gallery/slurm.md"]
nb_output_stderr = "remove-warn"
nb_merge_streams = True
nb_render_markdown_format = "myst"

# Docstrings name types and shapes; signatures stay short without them.
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
default_role = "literal"
numpydoc_show_class_members = False
