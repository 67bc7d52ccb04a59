# SPDX-License-Identifier: MIT
"""pack.py WHEEL PROGRAMS.py LICENCES MAN OUT: the last step of scripts/wheel.

Adds the commands in PROGRAMS.py, the texts in the folder LICENCES and the manual pages in the folder MAN to a wheel,
and writes it into the folder OUT. The same content gives the same bytes: files are sorted and dated SOURCE_DATE_EPOCH.
"""

import base64
import hashlib
import os
import re
import stat
import sys
import time
import zipfile

wheel, programs, licences, man, out = sys.argv[1:]
date = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]  # zip files cannot store years before 1980
files = {}  # name: bytes, mode
with zipfile.ZipFile(wheel) as z:
    for info in z.infolist():
        if not info.is_dir():
            files[info.filename] = z.read(info), stat.S_IMODE(info.external_attr >> 16) or 0o644

record, = [name for name in files if name.endswith(".dist-info/RECORD")]
info = os.path.dirname(record)
del files[record]


def add(name, path):
    with open(path, "rb") as f:
        files[name] = f.read(), 0o644


add(os.path.basename(programs), programs)
module = os.path.splitext(os.path.basename(programs))[0]
with open(programs, encoding="utf-8") as f:
    commands = re.findall(r"^def ([a-z]+)\(\):", f.read(), re.M)
files[f"{info}/entry_points.txt"] = ("[console_scripts]\n"
                                     + "".join(f"{c} = {module}:{c}\n" for c in commands)).encode(), 0o644
for name in os.listdir(licences):
    add(f"{info}/licenses/{name}", os.path.join(licences, name))
for name in os.listdir(man):
    add(f"{info[:-len('.dist-info')]}.data/data/share/man/man{name[-1]}/{name}", os.path.join(man, name))

lines = []
for name, (content, _) in sorted(files.items()):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    lines.append(f"{name},sha256={digest},{len(content)}\n")
files[record] = "".join([*lines, f"{record},,\n"]).encode(), 0o644

result = os.path.join(out, os.path.basename(wheel))
with zipfile.ZipFile(result, "w") as z:
    for name, (content, mode) in sorted(files.items()):
        entry = zipfile.ZipInfo(name, date)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.create_system = 3
        entry.external_attr = (stat.S_IFREG | (0o755 if mode & 0o100 else 0o644)) << 16
        z.writestr(entry, content, compresslevel=9)
print(result)
