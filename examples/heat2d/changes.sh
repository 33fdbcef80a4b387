#!/bin/sh
# Shows the changes that make heat2d malleable and counts them: at most 7 lines added or changed in C and C++, 10 in
# Fortran, 6 in Python, at most 5 calls of the library in Rust. Exits with 1 if there are more.
set -eu
cd "$(dirname "$0")"
is_right=true
count() { # LANGUAGE MAXIMUM PLAIN MALLEABLE
    diff -u "$3" "$4" || true
    lines=$(diff "$3" "$4" | grep -c '^>')
    [ "$lines" -le "$2" ] || is_right=false
    summary="${summary-}$1: $lines lines added or changed; "
}
count C 7 heat2d-plain.c heat2d.c
count C++ 7 heat2d-plain.cpp heat2d.cpp
count Fortran 10 heat2d-plain.f90 heat2d.f90
count Python 6 heat2d_plain.py heat2d.py
calls='Session::start\(|\.array_of\(|\.value_of\(|\.iterate\(|\.bounds\('
echo
grep -nE "$calls" src/run.rs
calls=$(grep -oE "$calls" src/*.rs | wc -l)
echo
echo "${summary}Rust: $calls calls"
$is_right && [ "$calls" -le 5 ]
