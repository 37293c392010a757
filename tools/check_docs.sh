#!/usr/bin/env bash
# Fails if documentation or a comment names a page that is not there, or a section that the page does not have. Runs in `make check`, on the sources
# alone. What it knows are links, `[page](page), *Section*`, and in comments of sources and scripts `docs/PAGE.md, "Section"` where both stand in one line.
set -euo pipefail
cd "${srcdir:-.}"
status=0
checked=0

complain() {
    echo "check_docs.sh: $*" >&2
    status=1
}

# A title ends at a colon, too.
has_section() {
    sed -nE 's/^#{2,4} +([^:]*).*/\1/p' "$1" | grep -xF -- "$2" >/dev/null
}

pages=(README.md docs/*.md {bench,contrib,core,kernels,ompi,test,tools,ucx_tl}/README.md)

# Pages, from where the text that names them stands.
while IFS=: read -r file link; do
    link=${link#](}
    link=${link%)}
    checked=$((checked + 1))
    [ -e "$(dirname "$file")/${link%%#*}" ] || complain "$file links to $link, which is not there"
done < <(grep -oHE '\]\([^):#]+(#[^)]*)?\)' "${pages[@]}")

# Sections of them.
while IFS=: read -r file match; do
    page=${match#*](}
    section=${match##*, [*\"]}
    section=${section%[*\"]}
    page=$(dirname "$file")/${page%%)*}
    checked=$((checked + 1))
    [ ! -f "$page" ] || has_section "$page" "$section" || complain "$file: $page has no section '$section'"
done < <(grep -oHE '\]\([^):#]+\.md\), ([*][^*]+[*]|"[^"]+")' "${pages[@]}")
while IFS=: read -r file match; do
    page=${match%%,*}
    section=${match#*\"}
    checked=$((checked + 1))
    if [ ! -f "$page" ]; then
        complain "$file names $page, which is not there"
    elif [[ $match = *\" ]] && ! has_section "$page" "${section%\"}"; then
        complain "$file: $page has no section '${section%\"}'"
    fi
done < <(grep -rohHE 'docs/[a-z-]+\.md(, "[^"]+")?' core kernels ucx_tl ompi tools bench test contrib --exclude='*.md' --exclude='*.json' \
    --exclude='*.png')

[ "$checked" -ge 100 ] || complain "only $checked references found"
exit "$status"
