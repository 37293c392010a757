#!/usr/bin/env bash
# Fails if docs/parameters.md is not what `gpucoll_info --markdown` prints, docs/collectives.md not what --collectives prints, if docs/troubleshooting.md lacks a topic of the
# help file, or if a page is not installed or docs/README.md does not list it. Runs in `make check`, in the build folder.
set -euo pipefail
src=${srcdir:-.}
status=0

if ! difference=$(diff -u "$src/docs/parameters.md" <(./gpucoll_info --markdown)); then
    printf '%s\n' "$difference"
    echo "check_parameters.sh: docs/parameters.md differs from the table in core/base/config.c: run 'make update-docs'" >&2
    status=1
fi

if ! difference=$(diff -u "$src/docs/collectives.md" <(./gpucoll_info --collectives)); then
    printf '%s\n' "$difference"
    echo "check_parameters.sh: docs/collectives.md differs from the tables in the code: run 'make update-docs'" >&2
    status=1
fi

help=$src/ompi/mca/coll/gpucoll/help-mpi-coll-gpucoll.txt
for topic in $(sed -n 's/^\[\(.*\)\]$/\1/p' "$help"); do
    if ! grep -q "^### .*\`$topic\`" "$src/docs/troubleshooting.md"; then
        echo "check_parameters.sh: docs/troubleshooting.md has no heading for the message \`$topic\`" >&2
        status=1
    fi
done

for page in "$src"/docs/*.md; do
    page=$(basename "$page")
    if ! grep -qw "docs/$page" "$src/Makefile.am"; then
        echo "check_parameters.sh: Makefile.am does not install docs/$page" >&2
        status=1
    fi
    if [ "$page" != README.md ] && ! grep -qF "[$page]($page)" "$src/docs/README.md"; then
        echo "check_parameters.sh: docs/README.md does not list $page" >&2
        status=1
    fi
done
exit "$status"
