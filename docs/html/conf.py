# SPDX-License-Identifier: MIT
# What Sphinx is told; stage.py has put the pages beside this file. PLENUM_VERSION is configure's.
import importlib.util
import os

project = "Plenum"
author = "The Plenum developers"
project_copyright = "The Plenum developers"
version = release = os.environ.get("PLENUM_VERSION", "")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 6
# What is no reference: a heading may skip a level, and code in a page may be of no language that is highlighted.
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
    """NumPy's headings in docstrings ("Parameters", underlined) as Sphinx has them; what is below them is a list as it
    stands."""
    if lines and lines[0].startswith("Alias for field number"):  # what a NamedTuple says of its fields
        lines.clear()
    for i in range(len(lines) - 1):
        if lines[i + 1] and not lines[i + 1].strip("-"):
            lines[i:i + 2] = [f".. rubric:: {lines[i]}", ""]


def setup(app):
    app.connect("autodoc-process-docstring", headings)
