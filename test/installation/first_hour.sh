#!/bin/sh
# What a newcomer does with Rakuda as a package has installed it: the version, the first Rakefile of README.md, twice,
# a question about it, the manual pages, the completion of bash. tools/test-systems runs it in a chroot of each system.
set -eu

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"

fail() {
    echo "first_hour: $*" >&2
    exit 1
}

rakuda --version
rakudactl --version >/dev/null
# The first Rakefile of the page: what is indented behind the comment that names the file, up to the next line of text.
sed -n '/^<!-- file: Rakefile -->$/,/^[^ ]/ s/^    //p' /rakuda/README.md > Rakefile
echo one two three > ode.txt
echo four five > song.txt
rakuda -q
[ "$(tr -d ' ' < total | tr '\n' ,)" = 3,2, ] || fail "the total is $(cat total)"
rakuda -q
rakudactl runs | grep -q ' done ' || fail "no run is known: $(rakudactl runs)"
rakudactl why ode.count --run last | grep -q ode.count || fail "no answer to why"
for page in rakuda.1 rakudactl.1 rakuda-hosts.5 rakuda-properties.7; do
    man -l "/usr/share/man/man${page##*.}/$page.gz" > shown
    grep -q '^NAME' shown || fail "$page is no page"
done
# As bash asks for what may follow `rakuda --fail`, and for the names of tasks.
cat > complete.bash <<'BASH'
. /usr/share/bash-completion/bash_completion
_completion_loader rakuda
complete -p rakuda >/dev/null || exit 1
answer() {
    COMP_WORDS=(rakuda "$1")
    COMP_CWORD=1
    COMP_LINE="rakuda $1"
    COMP_POINT=${#COMP_LINE}
    COMPREPLY=()
    "$(complete -p rakuda | sed 's/.*-F \([^ ]*\).*/\1/')" rakuda "$1" rakuda
    echo "${COMPREPLY[*]}"
}
answer --fail
answer tot
BASH
bash complete.bash > answers || fail "bash completes nothing"
grep -q -- --failure answers || fail "no option is completed: $(cat answers)"
grep -qx 'total *' answers || fail "no task is completed: $(cat answers)"
echo "first_hour: a run, its answers, four manual pages and the completion are as they should be"
