# SPDX-License-Identifier: MIT
# Configuration of Sphinx. stage.py has put the pages beside this file; configure sets PLENUM_VERSION.
import importlib.util
import os

project = "Plenum"
author = "The Plenum developers"
project_copyright = "The Plenum developers"
version = release = os.environ.get("PLENUM_VERSION", "")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 6
# Only broken references matter: a heading may skip a level, and code may be in a language without highlighting.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
highlight_language = "none"

autodoc_mock_imports = [] if importlib.util.find_spec("torch") else ["torch"]
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}

html_theme = "furo"
html_title = f"Plenum {release}"
html_static_path = ["manual.css"]
html_css_files = ["manual.css"]
html_show_sphinx = False
html_copy_source = False


def headings(app, what, name, obj, options, lines):
    """Turn NumPy's headings in docstrings ("Parameters", underlined) into Sphinx rubrics. The text below each is
    already a list."""
    if lines and lines[0].startswith("Alias for field number"):  # the text of a NamedTuple's field
        lines.clear()
    for i in range(len(lines) - 1):
        if lines[i + 1] and not lines[i + 1].strip("-"):
            lines[i:i + 2] = [f".. rubric:: {lines[i]}", ""]


def setup(app):
    app.connect("autodoc-process-docstring", headings)
