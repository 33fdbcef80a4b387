"""Unpacks the wheels of one folder into a prefix: data files by their place, libraries at the top. Keeps modes."""
import os
import stat
import sys
import zipfile

downloads, prefix = sys.argv[1:]
# Where the parts of NAME.data go; what is not listed (metadata) stays out.
PLACES = {"data": "", "scripts": "bin", "platlib": "", "purelib": ""}


def place(name):
    head, _, rest = name.partition("/")
    if head.endswith(".dist-info") or not rest:
        return None
    if not head.endswith(".data"):
        return name
    part, _, rest = rest.partition("/")
    return os.path.join(PLACES[part], rest) if part in PLACES and rest else None


for wheel in sorted(os.listdir(downloads)):
    with zipfile.ZipFile(os.path.join(downloads, wheel)) as archive:
        for item in archive.infolist():
            goal = place(item.filename)
            if goal is None or item.is_dir():
                continue
            goal = os.path.normpath(os.path.join(prefix, goal))
            if not goal.startswith(os.path.normpath(prefix) + os.sep):
                sys.exit("refusing to write outside the prefix: " + item.filename)
            os.makedirs(os.path.dirname(goal), exist_ok=True)
            mode = item.external_attr >> 16
            # Under a name of its own first: a program that runs keeps the file it has.
            fresh = goal + ".fresh"
            if os.path.lexists(fresh):
                os.remove(fresh)
            if stat.S_ISLNK(mode):
                os.symlink(archive.read(item), fresh)
            else:
                with open(fresh, "wb") as out:
                    out.write(archive.read(item))
                os.chmod(fresh, 0o755 if mode & 0o111 else 0o644)
            os.replace(fresh, goal)
