# SPDX-License-Identifier: MIT
"""deadlinks.py DIR - print the dead links between the pages of DIR, and exit with 1 if there are any."""

import html.parser
import os
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = {"", "top"}, []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors |= {attrs[name] for name in ("id", "name") if attrs.get(name)}
        self.links += [attrs[name] for name in ("href", "src") if attrs.get(name)]


root = os.path.abspath(sys.argv[1])
pages = {os.path.join(folder, name): None for folder, _, names in os.walk(root) for name in names
         if name.endswith(".html")}
for path in pages:
    pages[path] = Page(path)
count = dead = 0
for path, page in sorted(pages.items()):
    for link in page.links:
        url = urllib.parse.urlsplit(link)
        if url.scheme or url.netloc:
            continue
        count += 1
        there = os.path.normpath(os.path.join(os.path.dirname(path),
                                              urllib.parse.unquote(url.path))) if url.path else path
        if not os.path.isfile(there) or (there in pages
                                         and urllib.parse.unquote(url.fragment) not in pages[there].anchors):
            print(f"{os.path.relpath(path, root)}: {link} leads nowhere")
            dead += 1
print(f"{len(pages)} pages, {count} links between them, {dead} dead")
sys.exit(1 if dead or not count else 0)
