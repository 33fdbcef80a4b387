#!/bin/sh
# Shows the changes that make heat2d malleable and counts them: at most 7 lines added or changed in C, at most 5 calls
# of the library in Rust. Exits with 1 if there are more.
set -eu
cd "$(dirname "$0")"
diff -u heat2d-plain.c heat2d.c || true
lines=$(diff heat2d-plain.c heat2d.c | grep -c '^>')
calls='Session::start\(|\.array_of\(|\.value_of\(|\.iterate\(|\.bounds\('
echo
grep -nE "$calls" src/run.rs
calls=$(grep -oE "$calls" src/*.rs | wc -l)
echo
echo "C: $lines lines added or changed; Rust: $calls calls"
[ "$lines" -le 7 ] && [ "$calls" -le 5 ]
