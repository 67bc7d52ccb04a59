# SPDX-License-Identifier: MIT
"""stage.py SOURCE DIR - lay out the sources of the HTML manual in DIR: pages, manual pages, headers and examples,
linked with each other.

No text is duplicated: pages come from docs/ and the top folder, manual pages of section 3 describe the C functions, and
docstrings the Python functions. This program only adds file names, a table of contents, and links."""

import os
import re
import shutil
import subprocess
import sys

# (caption of the table of contents, pages)
CONTENTS = (
    ("Begin", ("README", "docs/install", "docs/guide", "docs/glossary")),
    ("Train", ("docs/training", "docs/elastic", "docs/slow", "docs/sweeps", "docs/pipelines", "docs/recipes",
               "docs/popdist", "examples/index")),
    ("Data sets", ("docs/datasets", "docs/stores", "docs/sampling", "docs/preparing", "docs/packed")),
    ("Run a loader", ("docs/operator", "docs/kubernetes", "docs/security", "docs/failures", "docs/messages")),
    ("Programs", ("man/plenumrun.1", "man/plenumctl.1", "man/plenumd.8", "man/plenumd.conf.5", "man/plenum.7")),
    ("Python", ("python/pyplenum", "python/pyplenum.torch")),
    ("C", ("man/libplenum.3", "man/plenum_job.3", "man/plenum_collectives.3", "man/plenum_stream.3",
           "man/plenum_batch.3", "man/plenum_cursor.3", "man/plenum_normalise.3", "include/index")),
    ("Exactly", ("docs/pixels", "docs/order", "docs/protocol", "docs/architecture", "docs/tour", "docs/states",
                 "docs/decoding", "docs/launcher", "bench/README")),
    ("The project", ("docs/versions", "NEWS", "CONTRIBUTING", "HACKING", "SECURITY", "LICENSE")),
)
# Folders of the source that have a page here, and folders that have none.
INSTEAD = {"include/plenum": "include/index.md", "examples": "examples/index.md"}
NO_PAGE = ("debian",)


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def write(text, *path):
    path = os.path.join(*path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Manual:
    def __init__(self, source, out):
        self.source, self.out = source, out
        self.man = {}  # "plenumrun(1)", "plenum_job_open(3)": the page that describes it
        for name in sorted(os.listdir(os.path.join(source, "docs", "man"))):
            page, section = name.rsplit(".", 1)
            names = re.search(r"^\.Sh NAME\n(.*?)^\.(?:Nd|Sh)", read(source, "docs", "man", name), re.S | re.M)
            for word in [page] + re.findall(r"^\.Nm ([\w.]+)", names.group(1) if names else "", re.M):
                self.man[f"{word}({section})"] = f"man/{name}"

    def target(self, page, link):
        """Return where a link of this page leads in the manual, relative to the page; None if nowhere."""
        path, _, anchor = link.partition("#")
        if not path or "://" in link:
            return link
        here = os.path.dirname(page)
        path = os.path.normpath(os.path.join(here, path))
        if path in NO_PAGE:
            return None
        if path == "README.md":
            path = "index.md"
        elif path in INSTEAD:
            path = INSTEAD[path]
        elif path.startswith("docs/man/"):
            path = path[len("docs/"):] + ".md"
        elif not path.endswith((".jpg", ".md", ".svg")):
            path += ".md"
        return os.path.relpath(path, here or ".") + ("#" + anchor if anchor else "")

    def links(self, page, text):
        """Return a page's text with links that fit the manual; references such as plenumrun(1) become links."""

        def link(match):
            target = self.target(page, match.group(2))
            return f"{match.group(1)}({target})" if target else match.group(1)[1:-1]

        def mention(match):
            at = self.man.get(match.group(0))
            return f"[{match.group(0)}]({os.path.relpath(at, os.path.dirname(page) or '.')}.md)" if at else match.group(
                0)

        parts = re.split(r"(^```.*?^```\n|^(?: {4}[^\n]*\n)+|`[^`\n]*`)", text, flags=re.S | re.M)
        for i in range(0, len(parts), 2):
            parts[i] = re.sub(r"(?<![\w\[])[a-z_.]+\(\d\)(?!\])", mention,
                              re.sub(r"(\[[^\]]*\])\(([^)\s]+)\)", link, parts[i]))
        return "".join(parts)

    def page(self, path, text=None):
        # Sphinx does not know languages that only we use.
        text = re.sub(r"^```(pipeline|refused|sbatch)$", "```text", text or read(self.source, path), flags=re.M)
        write(self.links(path, text), self.out, path if path.endswith(".md") else path + ".md")

    def listing(self, path, language):
        os.makedirs(os.path.join(self.out, os.path.dirname(path)), exist_ok=True)
        shutil.copy(os.path.join(self.source, path), os.path.join(self.out, path))
        write(f"# {path}\n\n```{{literalinclude}} {os.path.basename(path)}\n:language: {language}\n```\n", self.out,
              path + ".md")

    def manual_page(self, name):
        """Return mandoc's HTML with a heading for each section, for the table of contents and the search."""
        html = subprocess.run(["mandoc", "-Wfatal", "-T", "html", "-O", "fragment,man=man:%N(%S)",
                               os.path.join(self.source, "docs", "man", name)],
                              check=True, capture_output=True, text=True).stdout
        page, section = name.rsplit(".", 1)

        def reference(match):
            at = self.man.get(match.group(1))
            if at:
                return f'href="{os.path.basename(at)}.html"'
            return f'href="https://manpages.debian.org/{match.group(1)[:-3]}.{match.group(1)[-2]}"'

        html = re.sub(r'href="man:([^"]*)"', reference, html)
        body = html[html.index('<section class="Sh">'):html.rindex('<table class="foot">')].rstrip()
        body = re.sub(r"</?section[^>]*>|</div>\s*\Z", "", body)
        text = f"# {page}({section})\n\n"
        parts = re.split(r'<h([12]) class="S[hs]" id="([^"]*)">(.*?)</h[12]>', body, flags=re.S)
        for level, anchor, title, content in zip(parts[1::4], parts[2::4], parts[3::4], parts[4::4]):
            title = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", title)).strip()
            title = title.capitalize() if title.isupper() else title
            text += f"##{'#' * (int(level) - 1)} {title}\n\n"
            where = f"man/raw/{name}.{anchor}.html"
            write(f'<div class="man"><span id="{anchor}"></span>{content}</div>\n', self.out, where)
            text += f"```{{raw}} html\n:file: raw/{name}.{anchor}.html\n```\n\n"
        write(text, self.out, "man", name + ".md")

    def make(self):
        docs = sorted(name for name in os.listdir(os.path.join(self.source, "docs"))
                      if name.endswith((".jpg", ".md", ".svg")))
        for name in docs:
            if name.endswith(".md"):
                self.page(f"docs/{name}")
            else:
                os.makedirs(os.path.join(self.out, "docs"), exist_ok=True)
                shutil.copy(os.path.join(self.source, "docs", name), os.path.join(self.out, "docs", name))
        for name in ("CONTRIBUTING.md", "HACKING.md", "SECURITY.md", "NEWS", "bench/README.md"):
            self.page(name)
        write(f"# Licence\n\n{read(self.source, 'LICENSE')}", self.out, "LICENSE.md")
        for name in sorted(os.listdir(os.path.join(self.source, "docs", "man"))):
            self.manual_page(name)
        for folder, below, title, words in (
                ("examples", ("examples", "examples/frameworks"), "Examples", "The files of `examples/`."),
                ("include", ("include/plenum",), "Headers", "The public headers, as programs include them. The manual "
                                                            "pages describe the functions in detail.")):
            names = [f"{each}/{name}" for each in below for name in sorted(os.listdir(os.path.join(self.source, each)))
                     if name.endswith((".c", ".h", ".py"))]
            for name in names:
                self.listing(name, "python" if name.endswith(".py") else "c")
            toc = "\n".join(os.path.relpath(name, folder) for name in names)
            write(f"# {title}\n\n{words}\n\n```{{toctree}}\n{toc}\n```\n", self.out, folder, "index.md")
        for module in ("pyplenum", "pyplenum.torch"):
            write(f"# {module}\n\n```{{eval-rst}}\n.. automodule:: {module}\n```\n", self.out, "python", module + ".md")
        pages = {page for _, some in CONTENTS for page in some}
        forgotten = {f"docs/{name[:-3]}" for name in docs if name.endswith(".md")} - pages
        if forgotten:
            sys.exit(f"stage.py: no place in the table of contents (CONTENTS) for {', '.join(sorted(forgotten))}")
        index = self.links("index.md", read(self.source, "README.md"))
        for caption, some in CONTENTS:
            lines = [f"{page}" for page in some if page != "README"]
            index += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(lines) + "\n```\n"
        write(index, self.out, "index.md")
        for name in ("conf.py", "manual.css"):
            shutil.copy(os.path.join(self.source, "docs", "html", name), self.out)


source, out = (os.path.abspath(path) for path in sys.argv[1:])
shutil.rmtree(out, ignore_errors=True)
Manual(source, out).make()
