#!/bin/sh
# Shows what makes the plain heat2d malleable, and counts: at most 7 lines added or changed in C. Exits with 1 if more.
set -eu
cd "$(dirname "$0")"
diff -u heat2d-plain.c heat2d.c || true
new=$(diff heat2d-plain.c heat2d.c | grep -c '^>')
gone=$(diff heat2d-plain.c heat2d.c | grep -c '^<')
echo "C: $new lines added or changed ($gone lines of the plain program changed or gone)"
[ "$new" -le 7 ]
