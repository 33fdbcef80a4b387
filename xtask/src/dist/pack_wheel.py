"""Writes a wheel: a zip file of a tree, the same for the same tree, with the list of its files."""
import base64
import hashlib
import os
import sys
import time
import zipfile

tree, wheel, seconds = sys.argv[1:]
moment = time.gmtime(int(seconds))[:6]
names = []
for folder, _, files in os.walk(tree):
    names += [os.path.relpath(os.path.join(folder, name), tree) for name in files]
# The list comes last, and what describes the package before it.
names.sort(key=lambda name: (".dist-info/" in name, name))
record = []


def add(archive, name, content, mode):
    item = zipfile.ZipInfo(name, moment)
    item.external_attr = (0o100000 | mode) << 16
    item.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(item, content)


with zipfile.ZipFile(wheel, "w") as archive:
    for name in names:
        path = os.path.join(tree, name)
        with open(path, "rb") as file:
            content = file.read()
        add(archive, name, content, os.stat(path).st_mode & 0o777)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(content)}\n")
    information = names[-1].split("/")[0]
    record.append(f"{information}/RECORD,,\n")
    add(archive, f"{information}/RECORD", "".join(record), 0o644)
