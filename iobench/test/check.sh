#!/bin/sh
# The kernels themselves, tiny, with 2 ranks: what they write, what they find, how they fail, what they leave. Called by
# `make check`, which has built them; needs mpirun. It waits for events, never for a time.
#
# usage: test/check.sh [NAME...]      the checks with these names; all by default
#
# Results are left in build/check/results for others to look at. Each check prints its name, and what was wrong. Those of a full
# disk need a tmpfs of their own, so root or user namespaces: where there is neither, they are named as left out.
set -u
cd "$(dirname "$0")/.." || exit 1
here=$(pwd)
fast=$here/build
watched=$here/build/san
work=$(mktemp -d)
results=$here/build/check/results
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

MPIRUN=${MPIRUN:-mpirun}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# Ranks that wait do not take the one core that another one needs; no network for ranks on one machine.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1
# Open MPI 4 removes the folder that runs of one user share, and fails when another run of it makes that at this moment.
mkdir "$work/mpi" || exit 1
export OMPI_MCA_orte_tmpdir_base="$work/mpi"
# The whole stack of each allocation: Open MPI has no frame pointers, and test/leaks.txt goes by the library.
export ASAN_OPTIONS=fast_unwind_on_malloc=0
export LSAN_OPTIONS="suppressions=$here/test/leaks.txt:print_suppressions=0"
export UBSAN_OPTIONS=print_stacktrace=1

failures=0
check=

wrong() {
    echo "  $check: $*"
    failures=$((failures + 1))
}

# Runs a kernel with 2 ranks in $work; its output is in $work/out, its status in $status.
ranks() {
    (cd "$work" && timeout -s KILL 300 "$MPIRUN" -n 2 "$@") >"$work/out" 2>&1
    status=$?
}

ends_with() {
    [ "$status" -eq "$1" ] || { wrong "ended with $status instead of $1"; sed 's/^/    /' "$work/out" | head -40; }
}

says() {
    grep -qF -- "$1" "$work/out" || { wrong "did not say: $1"; sed 's/^/    /' "$work/out" | head -40; }
}

gone() {
    [ ! -e "$work/$1" ] || wrong "left $(cd "$work" && find "$1" | tr '\n' ' ')"
}

there() {
    [ -e "$work/$1" ] || wrong "$1 is not there"
}

# Adds 1 to the byte of a file at an offset.
corrupt() {
    old=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    # shellcheck disable=SC2059
    printf "\\$(printf %03o $(((old + 1) % 256)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

# The checksum that is the last word but so many less 1 of a header of qcd-io.
sum_in() {
    head -c 256 "$1" | awk -v place="$2" '{ print $(NF + 1 - place); exit }'
}

bytes_of() {
    stat -c %s "$1"
}

# The numbers of the children of a process, and theirs, that run a program.
ranks_of() {
    # shellcheck disable=SC2013
    for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
        ranks_of "$child"
        case $(readlink "/proc/$child/exe") in "$2") echo "$child" ;; esac
    done
}

# Runs a command again and again until it is true, or for a minute.
until_true() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 6000 ] || { wrong "waited in vain for: $*"; return 1; }
        sleep 0.01
    done
}

# In a mount namespace with a tmpfs of so many bytes at $work/small.
in_small() {
    size=$1
    shift
    mkdir -p "$work/small"
    # shellcheck disable=SC2016,SC2086
    (cd "$work" && timeout -s KILL 300 $namespace sh -c 'mount -t tmpfs -o size="$1" none small && shift && exec "$@"' sh "$size" "$@") \
        >"$work/out" 2>&1
    status=$?
}

check_unit() {
    "$watched/unit" >"$work/out" 2>&1
    status=$?
    ends_with 0
}

# Every writer, record and layout: what one rank has written another one reads, and nothing is left.
check_argot_io() {
    ranks "$watched/argot-io" --out "$results/argot-io.json" --rewrites 2
    ends_with 0
    says "valid"
    gone argot-io
    for writer in block direct; do
        ranks "$fast/argot-io" --writer $writer --record molecular --fsync file --cache cold --out "$results/argot-io-$writer.json"
        ends_with 0
    done
    for record in all helium; do
        ranks "$fast/argot-io" --mesh 5x6x7 --record $record --reps 1 --out "$results/argot-io-$record.json"
        ends_with 0
    done
}

check_qcd_io() {
    for layout in fpp shared rank0; do
        ranks "$watched/qcd-io" --layout $layout --keep --name $layout --reps 1 --out "$results/qcd-io-$layout.json"
        ends_with 0
        says "all matrices that were read are SU(3) within"
        says "the layout is ours"
    done
    cmp "$work/shared/conf-0001.ildg" "$work/rank0/conf-0001.ildg" || wrong "shared and rank0 differ"
    cmp "$work/shared/conf-0001.sums" "$work/rank0/conf-0001.sums" || wrong "their checksums differ"
    # The checksums of the processes' parts make those of the whole, in another order of the same numbers.
    for place in 2 1; do
        both=0
        for name in "$work"/fpp/conf-0001/*; do both=$((both ^ 0x$(sum_in "$name" $place))); done
        [ "$both" -eq $((0x$(sum_in "$work/shared/conf-0001.sums" $place))) ] || wrong "the parts' checksums do not make the whole's"
    done
}

check_les_io() {
    ranks "$watched/les-io" --outputs instant,restart --mp-model 9 --soil-model 1 --mesh 9x7x5 --reps 1 --fsync file --cache cold \
        --out "$results/les-io-9.json"
    ends_with 0
    ranks "$fast/les-io" --reps 1 --out "$results/les-io.json"
    ends_with 0
    ranks "$fast/les-io" --outputs integral,average --mp-model 9 --chunk contiguous --reps 1 --out "$results/les-io-contiguous.json"
    ends_with 0
    ranks "$fast/les-io" --outputs integral,average --mp-model 0 --access collective --chunk 8x8x4 --mesh 16x16x8 --reps 1 \
        --close-timed no --out "$results/les-io-0.json"
    ends_with 0
    gone les-io
}

# Files are as large as the dry run says, and headers and parts stand where it says.
check_dry_run() {
    for kernel in "argot-io --rewrites 1" "qcd-io" "qcd-io --layout shared"; do
        rm -rf "$work/dry"
        # shellcheck disable=SC2086
        set -- $kernel
        program=$fast/$1
        shift
        "$program" --dry-run --np 2 "$@" >"$work/plan" || wrong "$kernel --dry-run failed"
        ranks "$program" "$@" --name dry --keep
        ends_with 0
        grep -v '^#' "$work/plan" | cut -f 1 | sort -u >"$work/names"
        (cd "$work/dry" && find . -type f ! -name .iobench | sed 's|^\./||' | sort) | cmp - "$work/names" || wrong "$kernel: other files than planned"
        while read -r name; do
            planned=$(awk -F '\t' -v name="$name" '$1 == name { sum += $5 } END { print sum }' "$work/plan")
            [ "$(bytes_of "$work/dry/$name")" = "$planned" ] || wrong "$kernel: $name has $(bytes_of "$work/dry/$name") bytes, planned $planned"
        done <"$work/names"
    done
    # Of netCDF files: each rank's blocks are chunks, with that start and that size.
    "$fast/les-io" --dry-run --np 2 --outputs restart --reps 1 >"$work/plan"
    ranks "$fast/les-io" --name nc --outputs restart --reps 1 --keep
    ends_with 0
    "$watched/les-chunks" "$work/nc/out-01/lesrst_restart.nc" >"$work/chunks" || wrong "les-chunks failed"
    grep -v '^#' "$work/plan" | sed 's/^[^\t]*\t[^\t]*\t\([^ ]*\) start \([^ ]*\) count [^\t]*\t-\t/\1 \2 /' | sort >"$work/planned"
    awk -F '\t' '$1 !~ /^(i|j|k|l|im1d|kg|nprocs|spcs|bin)$/ { print $1, $2, $4 }' "$work/chunks" | sort | cmp - "$work/planned" || wrong "chunks are not as planned"
}

# One byte is changed: the run is not valid, and says which.
check_corruption() {
    ranks "$fast/argot-io" --name a --phases write
    ends_with 3
    says "nothing was read back"
    # Rank 1's file of epoch 1: the record of cell 3,4,5, its momy.
    corrupt "$work/a/argot-02/argot-02_001_000_000" $((808 + ((3 * 32 + 4) * 32 + 5) * 52 + 3 * 4 + 1))
    ranks "$watched/argot-io" --name a --phases read --out "$results/corrupt-argot-io.json"
    ends_with 3
    says "argot-02_001_000_000 at $((808 + ((3 * 32 + 4) * 32 + 5) * 52 + 3 * 4 + 1)): rank 1 epoch 1 cell 3,4,5 variable 3 momy"
    says "1 wrong"

    for layout in fpp shared; do
        ranks "$fast/qcd-io" --layout $layout --name $layout --phases write
        ends_with 3
    done
    # Rank 1 has x from 4 on. Its first even site, direction x: row 0, column 1, imaginary, the sixth byte.
    corrupt "$work/fpp/conf-0002/conf-0002_00001" $((256 + 3 * 16 + 8 + 5))
    ranks "$fast/qcd-io" --layout fpp --name fpp --phases read
    ends_with 3
    says "conf-0002_00001 at $((256 + 3 * 16 + 8 + 5)): rank 1 configuration 1 site x=4 y=0 z=0 t=0 direction x row 0 column 1 imaginary"
    says "not SU(3)"
    # Site x=5 y=4 z=2 t=3 of 8x8x8x4, direction t, row 2, column 0, real, the last but one byte.
    offset=$(((((3 * 8 + 2) * 8 + 4) * 8 + 5) * 576 + 3 * 144 + 2 * 48 + 6))
    corrupt "$work/shared/conf-0001.ildg" $offset
    corrupt "$work/shared/conf-0002.sums" 100
    ranks "$fast/qcd-io" --layout shared --name shared --phases read
    ends_with 3
    says "conf-0001.ildg at $offset: rank 1 configuration 0 site x=5 y=4 z=2 t=3 direction t row 2 column 0 real"
    ranks "$fast/qcd-io" --layout shared --name shared --phases read --reps 1
    ends_with 1
    says "was written as"

    ranks "$fast/les-io" --name l --outputs instant --reps 1 --phases write
    ends_with 3
    # Rank 1's chunk of w begins at i = 16: k = 1, j = 2, i = 16 + 3, its byte 2.
    chunk=$("$watched/les-chunks" "$work/l/out-01/lesout_instant.nc" | awk -F '\t' '$1 == "w" && $2 == "0,0,16" { print $3 }')
    corrupt "$work/l/out-01/lesout_instant.nc" $((chunk + ((1 * 32 + 2) * 16 + 3) * 4 + 2))
    ranks "$fast/les-io" --name l --outputs instant --reps 1 --phases read --out "$results/corrupt-les-io.json"
    ends_with 3
    says "lesout_instant.nc: rank 1 repetition 0 variable w cell 1,2,19 byte 2"
    says "1 wrong"
}

# The caches: cold where that cannot be is not valid; nor is O_DIRECT where it means nothing.
check_cache() {
    if [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] && [ -w /dev/shm ]; then
        memory=$(mktemp -d /dev/shm/iobench.XXXXXX)
        for kernel in argot-io qcd-io les-io; do
            ranks "$fast/$kernel" --dir "$memory" --cache cold
            ends_with 3
            says "was to be cold"
        done
        ranks "$fast/argot-io" --dir "$memory" --writer direct
        ends_with 3
        says "takes O_DIRECT and does not do it"
        rmdir "$memory" || wrong "something is left in $memory"
    else
        echo "  left out: a file system in memory, since /dev/shm is none here"
    fi
    for kernel in argot-io "qcd-io --layout shared" les-io; do
        warm_though_cold "$kernel"
    done
    ranks "$fast/qcd-io" --cache warm --min-seconds 1000
    ends_with 3
    says "at least 1000 s are asked for"
}

# Somebody keeps a kernel's files in the page cache, and they are to be read cold; then nobody does.
warm_though_cold() {
    # shellcheck disable=SC2086
    ranks "$fast/"$1 --name warm --phases write
    ends_with 3
    mkfifo "$work/hold" "$work/said"
    # shellcheck disable=SC2046
    "$fast/held" $(find "$work/warm" -type f ! -name .iobench) <"$work/hold" >"$work/said" &
    holder=$!
    exec 3>"$work/hold"
    read -r word <"$work/said"
    [ "$word" = held ] || wrong "nobody held the files of $1"
    # shellcheck disable=SC2086
    ranks "$fast/"$1 --name warm --phases read --cache cold --keep
    ends_with 3
    grep -q "was to be cold\|cannot be proven" "$work/out" || wrong "$1 did not say that its files were in memory"
    exec 3>&-
    wait $holder
    # shellcheck disable=SC2086
    ranks "$fast/"$1 --name warm --phases read --cache cold
    case $(stat -f -c %T "$work") in
    overlayfs | tmpfs) ends_with 3 ;;
    *) ends_with 0 ;;
    esac
    rm -rf "$work/warm" "$work/hold" "$work/said"
}

# No room: told before, and, where nobody asks, in the middle; in order, with nothing left.
check_full() {
    namespace=
    mkdir -p "$work/small"
    for try in "unshare -m" "unshare -rm"; do
        if [ -z "$namespace" ] && (cd "$work" && $try mount -t tmpfs -o size=64k none small) 2>/dev/null; then namespace=$try; fi
    done
    if [ -z "$namespace" ]; then
        echo "  left out: a full disk, which needs root or user namespaces"
        return
    fi
    in_small 2m "$MPIRUN" -n 2 "$fast/argot-io" --dir small
    ends_with 1
    says "too little space"
    for kernel in "argot-io" "argot-io --writer block" "qcd-io" "qcd-io --layout rank0" "qcd-io --layout shared" "les-io"; do
        # shellcheck disable=SC2086,SC2016
        in_small 1m sh -c '"$@"; status=$?; ls -A small; exit $status' sh "$MPIRUN" -n 2 "$fast/"$kernel --dir small --ignore-space
        ends_with 1
        grep -q "left on device\|No space\|HDF error" "$work/out" || { wrong "$kernel did not say that the disk is full"; sed 's/^/    /' "$work/out"; }
        case $(tail -n 1 "$work/out") in argot-io | qcd-io | les-io) wrong "$kernel left its folder" ;; esac
    done
}

# Starts 2 ranks that compute after their first file, waits until that is there, and sets $mpirun and $first, $second.
start() {
    file=$1
    shift
    (cd "$work" && exec "$MPIRUN" -n 2 "$@") >"$work/out" 2>&1 &
    mpirun=$!
    until_true either "$work/$file"
    kill -0 "$mpirun" 2>/dev/null || { wrong "ended before it could be killed"; sed 's/^/    /' "$work/out"; return 1; }
    until_true both "$1"
    # shellcheck disable=SC2046
    set -- $(ranks_of "$mpirun" "$1")
    first=$1
    second=$2
}

# The file is there, or nobody is left to make it.
either() {
    [ -e "$1" ] || ! kill -0 "$mpirun" 2>/dev/null
}

both() {
    [ "$(ranks_of "$mpirun" "$1" | wc -l)" -eq 2 ]
}

ended() {
    wait "$mpirun"
    status=$?
}

none_left() {
    ! kill -0 "$first" 2>/dev/null && ! kill -0 "$second" 2>/dev/null
}

# Writes of one rank fail as beyond a quota, the other's do not: the run ends, whatever a library waits for, and leaves nothing.
check_quota() {
    for kernel in "argot-io --writer block --block 4096" "qcd-io --layout shared" "qcd-io --layout rank0" "les-io" "les-io --access collective"; do
        # Where HDF5 makes the file, it waits itself for a rank that could not: les-io gets as far as its variables.
        case $kernel in les-io*) counts=5 ;; *) counts="0 1 5" ;; esac
        for count in $counts; do
            # shellcheck disable=SC2086
            ranks env LD_PRELOAD="$fast/faults.so" IOBENCH_FAULT="0:$count:quota:/quota/" "$fast/"$kernel --name quota --reps 1
            ends_with 1
            grep -q "quota exceeded\|HDF error\|MPI_File\|ERR_" "$work/out" || { wrong "$kernel did not say why after $count writes"; sed 's/^/    /' "$work/out"; }
            until_true nothing_at "$work/quota"
        done
    done
}

nothing_at() {
    [ ! -e "$1" ]
}

# A file server that does not answer: --time-limit ends the run all the same, and says so. It is long against what comes before the hang.
check_hang() {
    ranks env LD_PRELOAD="$fast/faults.so" IOBENCH_FAULT=-1:2:hang:/hang/ "$fast/argot-io" --writer block --block 4096 --name hang --time-limit 12
    [ "$status" -ne 0 ] || wrong "ended with 0"
    says "--time-limit passed: rank 0 is within step write of write 0"
    says "--time-limit passed: rank 1 is within step write of write 0"
    says "--time-limit passed, and the file system does not answer: killed"
    "$fast/argot-io" --clean --np 2 --dir "$work" --name hang --writer block --block 4096 >"$work/out" 2>&1
    gone hang
    # One rank hangs, and the other waits for it within a library, or behind the step.
    for kernel in "0:1 write of write|qcd-io --layout shared" "1:9 [a-z0-9A-Z]* of instant_write|les-io --outputs instant" \
        "0:9 [a-z0-9A-Z]* of instant_write|les-io --outputs instant --access collective"; do
        fault=${kernel%% *}
        step=${kernel#* }
        # shellcheck disable=SC2086
        set -- ${kernel#*|}
        program=$fast/$1
        shift
        ranks env LD_PRELOAD="$fast/faults.so" IOBENCH_FAULT="$fault:hang:/hang/" "$program" "$@" --name hang --hard-limit 10
        [ "$status" -ne 0 ] || wrong "$program ended with 0"
        grep -q -- "--hard-limit passed: rank ${fault%:*} is within step ${step%%|*} 0" "$work/out" ||
            { wrong "$program did not say where it hung"; sed 's/^/    /' "$work/out"; }
        "$program" --clean --np 2 --dir "$work" --name hang "$@" >"$work/said" 2>&1
        gone hang
    done
}

# What a quota leaves is asked for before anything is made.
check_space() {
    task room . && ends_with 0
    grep -q '^[0-9]* \(-\|[0-9]*\)$' "$work/out" || wrong "room said: $(cat "$work/out")"
    task room gone
    ends_with 1
    says "gone: No such file or directory"
    (cd "$work" && LD_PRELOAD="$fast/quota.so" IOBENCH_QUOTA=12345 "$fast/room" .) >"$work/out" 2>&1
    grep -q '^[0-9]* 12345$' "$work/out" || wrong "of a quota room said: $(cat "$work/out")"
    for kernel in argot-io qcd-io les-io; do
        ranks env LD_PRELOAD="$fast/quota.so" IOBENCH_QUOTA=12345 "$fast/$kernel" --name full
        ends_with 1
        says "too little space for the run: 12345 bytes that the quota leaves, "
        gone full
    done
}

check_interrupted() {
    # A file that somebody else has put there is not the kernel's to remove.
    start k/argot-01/argot-01_001_000_000 "$watched/argot-io" --name k --reps 2 --phases write --mesh 4x4x4 \
        --compute 60 || return
    : >"$work/k/argot-01/mine"
    kill -TERM "$mpirun"
    ended
    [ "$status" -ne 0 ] || wrong "an interrupted run ended with 0"
    until_true none_left
    there k/argot-01/mine
    [ "$(cd "$work/k" && find . | sort | tr '\n' ' ')" = ". ./argot-01 ./argot-01/mine " ] || wrong "left $(find "$work/k")"
    rm -rf "$work/k"

    # A rank is killed: the other one removes the files of both.
    start k/out-01/lesout_integral.nc "$fast/les-io" --name k --outputs integral,instant --compute 60 --reps 9 || return
    kill -KILL "$first"
    ended
    [ "$status" -ne 0 ] || wrong "a run ended with 0 whose rank was killed"
    until_true none_left
    gone k
    rm -rf "$work/k"

    # All are killed: what is left is in the way, is named, and goes with --clean.
    start k/conf-0001/conf-0001_00001 "$fast/qcd-io" --name k --compute 60 --reps 9 || return
    kill -KILL "$mpirun" "$first" "$second"
    ended
    until_true none_left
    there k/.iobench
    ranks "$fast/qcd-io" --name k --reps 9
    ends_with 1
    says "is there already"
    "$fast/qcd-io" --clean --np 3 --dir "$work" --name k --reps 9 2>"$work/out" && wrong "cleaned what other ranks have written"
    "$fast/qcd-io" --clean --np 2 --dir "$work" --name k --reps 9 || wrong "--clean failed"
    gone k

    # Time is kept.
    ranks "$fast/argot-io" --reps 9 --compute 0.6 --time-limit 0.5
    ends_with 1
    says "--time-limit 0.5 passed"
    gone argot-io
}

check_bad_input() {
    mkdir "$work/taken"
    : >"$work/taken/mine"
    ranks "$watched/qcd-io" --name taken
    ends_with 1
    says "taken is there already"
    there taken/mine
    ranks "$fast/argot-io" --dir nowhere
    ends_with 1
    says "--dir nowhere: No such file or directory"
    # Found before anything is measured.
    ranks "$fast/qcd-io" --name unread --out nowhere/result.json --phases write
    ends_with 1
    says "cannot write the result of qcd-io, --out nowhere/result.json: No such file or directory"
    gone unread
    for words in "--mesh 4x4|expected 3 numbers" "--mesh 4x0x4|each from 1 to" "--writer fast|expected one of record-stdio" "--reps|expected a value" \
        "--size 3|expected one of tiny|small|large" "--block 1000|from 4096" "--grid 3x1x1|is not for 2 ranks" "--nothing|no such option" \
        "--name a/b|without /" "--phases write,eat|expected words of" "--reps -1|from 1 to"; do
        # shellcheck disable=SC2086
        "$fast/argot-io" --dry-run --np 2 ${words%%|*} >"$work/out" 2>&1
        status=$?
        ends_with 2
        says "${words#*|}"
    done
    "$fast/les-io" --dry-run --np 2 --mesh 1x1x4 >"$work/out" 2>&1
    status=$?
    ends_with 2
    says "cannot be divided"
    "$fast/les-io" --dry-run --np 1 --size large --mp-model 9 >"$work/out" 2>&1
    status=$?
    ends_with 2
    says "use more ranks"
}

# A task program in $work, with the sanitizers.
task() {
    program=$1
    shift
    (cd "$work" && timeout -s KILL 300 "$watched/$program" "$@") >"$work/out" 2>&1
    status=$?
}

# A fake aligner, whose lines are the words, and a task with it in PATH. Assignments before a function reach its children in
# dash and bash.
with_aligner() {
    limit=$1
    lines=$2
    shift 2
    mkdir -p "$work/bin"
    printf '#!/bin/sh\n%b\n' "$lines" >"$work/bin/diamond"
    chmod +x "$work/bin/diamond"
    PATH=$work/bin:$PATH HOMOLOGY_STILL_S=$limit task homology-task "$@"
}

# Here alone time is waited for: it is what the task goes by. 8 s: a process of a busy machine may stand still for 5.
check_stuck_aligner() {
    hit='r000000000\tp000000001\t9.5'
    with_aligner 8 "[ -e stood ] && exec echo '$hit'\ntouch stood\necho 'r000000001\tp000000001\t1'\nexec sleep 300" \
        search 12000 reads p.dmnd 1 again
    ends_with 0
    says "diamond used no processor time for 8 s on reads: started again"
    printf '%b\n' "$hit" | cmp -s - "$work/again.0" || wrong "hits of an aligner that was started again are not those of its last run"
    # It computes for longer than that.
    until_then="end=\$((\$(date +%s) + 12))\nwhile [ \$(date +%s) -lt \$end ]; do"
    computes="i=0; while [ \$i -lt 100000 ]; do i=\$((i + 1)); done"
    with_aligner 8 "$until_then $computes; done\necho '$hit'" search 12000 reads p.dmnd 1 busy
    ends_with 0
    grep -q "started again" "$work/out" && wrong "an aligner that works was started again"
    there busy.0
    with_aligner 1 ": >never\nexec >&-\nexec sleep 300" align reads p.dmnd 12000 never
    ends_with 1
    says "diamond failed on never: it used no processor time for 1 s, 3 times"
    gone never
    : >"$work/made"
    with_aligner 0 "exit 0" align reads p.dmnd 12000 made
    ends_with 2
    says "HOMOLOGY_STILL_S: expected at least 1"
    there made
}

check_tasks() {
    task io-task --write a:3000001 --write empty:0 && ends_with 0
    task io-task --read a:3000001 --read empty:0 --compute-ms 1 --write b:8
    ends_with 0
    task io-task --read a:3000000
    ends_with 1
    says "a has 3000001 bytes: expected 3000000"
    task io-task --read a:3000001 --seed 2
    ends_with 1
    says "a: byte 0 is"
    printf x | dd of="$work/a" bs=1 seek=2000007 conv=notrunc 2>/dev/null
    task io-task --read a:3000001 --write c:8
    ends_with 1
    says "a: byte 2000007 is 120: expected"
    [ ! -e "$work/c" ] || wrong "a task that failed has written"
    task io-task --read missing:1
    ends_with 1
    task io-task --read nonsense
    ends_with 2
    task io-task --write /dev/full:4096
    ends_with 1
    says "No space left"

    for first in 0 500; do task homology-task queries "q$first" "$first" 500 && ends_with 0; done
    for first in 0 300; do task homology-task database "d$first" "$first" 300 && ends_with 0; done
    for q in 0 500; do
        for d in 0 300; do task homology-task map "q$q" "d$d" 3 "h$q-$d" && ends_with 0; done
    done
    for r in 0 1 2; do task homology-task reduce "o$r" "h0-0.$r" "h0-300.$r" "h500-0.$r" "h500-300.$r" && ends_with 0; done
    task homology-task check 1000 600 300 3 o0 o1 o2
    ends_with 0
    says "9970 rows of 1000 reads"
    task homology-task check 1000 600 300 3 o0 o2 o1
    ends_with 1
    cat "$work"/h0-* "$work"/h500-* >"$work/all"
    for r in 0 1 2; do
        task homology-task collect "c$r" "$r" 3 <"$work/all" && ends_with 0
        cmp -s "$work/o$r" "$work/c$r" || wrong "reducer $r makes another file of a stream"
    done
    sed -i 5s/p/q/ "$work/o1"
    task homology-task check 1000 600 300 3 o0 o1 o2
    ends_with 1
    says "o1: line 5 is not the hit of"
    sed -i 2s/^./N/ "$work/q0"
    task homology-task map q0 d0 3 x
    ends_with 1
    says "q0: record 1 is not r000000000"
    printf 'r1\tp1\n' >>"$work/h0-0.0"
    task homology-task reduce o h0-0.0
    ends_with 1
    says "is no hit"

    task homology-task homologs reads 0 200 40 0
    ends_with 0
    task homology-task database proteins 0 40
    if command -v diamond >/dev/null; then
        task homology-task format proteins p.dmnd && ends_with 0
        task homology-task align reads p.dmnd 12000 table && ends_with 0
        task homology-task merge best table && ends_with 0
        task homology-task recall 200 40 0 99 best
        ends_with 0
        task homology-task search 12000 reads p.dmnd 2 s && ends_with 0
        sort "$work/s.0" "$work/s.1" >"$work/both"
        sort "$work/table" | cmp -s - "$work/both" || wrong "a search for reducers finds other hits"
        cat "$work/s.1" "$work/s.0" >"$work/all"
        for r in 0 1; do
            task homology-task merge "m$r" "s.$r" && ends_with 0
            task homology-task gather "g$r" "$r" 2 <"$work/all" && ends_with 0
            cmp -s "$work/m$r" "$work/g$r" || wrong "reducer $r merges hits of a stream otherwise"
        done
        sort "$work/m0" "$work/m1" >"$work/both"
        sort "$work/best" | cmp -s - "$work/both" || wrong "two reducers keep other hits than one"
        task homology-task search 12000 gone p.dmnd 2 s
        ends_with 1
        says "diamond failed on gone"
        task homology-task recall 200 39 0 99 best
        ends_with 1
        task homology-task align gone p.dmnd 12000 table
        ends_with 1
        says "diamond failed on table"
    else
        echo "  left out: a search with diamond, which is not here"
    fi

    task mapreduce-task rows rows0 0 1000 && ends_with 0
    task mapreduce-task rows rows1 1000 1000 && ends_with 0
    for i in 0 1; do task mapreduce-task split "rows$i" 3 "split$i" && ends_with 0; done
    cat "$work/rows1" "$work/rows0" >"$work/all"
    for r in 0 1 2; do
        task mapreduce-task merge "sorted$r" "split0.$r" "split1.$r" && ends_with 0
        task mapreduce-task collect "c$r" "$r" 3 <"$work/all" && ends_with 0
        cmp -s "$work/sorted$r" "$work/c$r" || wrong "reducer $r sorts rows of a stream otherwise"
    done
    LC_ALL=C sort "$work/all" >"$work/sorted"
    cat "$work/sorted0" "$work/sorted1" "$work/sorted2" | cmp -s - "$work/sorted" || wrong "rows are sorted otherwise than by sort(1)"
    task mapreduce-task check 2000 sorted0 sorted1 sorted2 && ends_with 0
    says "2000 rows in order"
    task mapreduce-task check 2000 sorted1 sorted0 sorted2 && ends_with 1
    says "stands behind a greater one"
    task mapreduce-task check 2001 sorted0 sorted1 sorted2 && ends_with 1
    task mapreduce-task check 4000 sorted0 sorted1 sorted2 sorted2 && ends_with 1
    says "is there twice"
    printf X | dd of="$work/sorted1" bs=1 seek=130 conv=notrunc 2>/dev/null
    task mapreduce-task check 2000 sorted0 sorted1 sorted2 && ends_with 1
    says "sorted1: row 2 is none that was to be sorted"
    printf X >>"$work/rows0"
    task mapreduce-task split rows0 3 x && ends_with 1
    task mapreduce-task collect x 3 3 </dev/null
    ends_with 2
    task mapreduce-task write file_07 2000001 row && ends_with 0
    task mapreduce-task read file_07 2000001 - && ends_with 0
    task mapreduce-task sum total row row && ends_with 0
    [ "$(cat "$work/total")" = "2 files, 4000002 bytes" ] || wrong "sums otherwise"
    printf x | dd of="$work/file_07" bs=1 seek=1500000 conv=notrunc 2>/dev/null
    task mapreduce-task read file_07 2000001 - && ends_with 1
    says "file_07: a byte between 1048576 and 2000001 is wrong"
    task mapreduce-task write noname 8 -
    ends_with 2

    task timed sh -c 'exit 7'
    ends_with 7
    task timed sh -c 'kill -9 $$'
    ends_with 137
    task timed no-such-command
    ends_with 1
    task timed
    ends_with 2
    if [ "$(stat -f -c %T "$work")" = overlayfs ]; then
        task page-cache warm all && ends_with 1
        says "an overlay does not tell"
    else
        task page-cache warm all && ends_with 0
        says "200000 200000"
    fi
    task page-cache nothing all && ends_with 2
    task page-cache cold gone && ends_with 1

    for way in "" --direct; do
        # A tmpfs of old kernels has no O_DIRECT.
        [ -z "$way" ] || [ "$(stat -f -c %T "$work")" != tmpfs ] || continue
        task bandwidth-io make --file deep/er/b && ends_with 0
        # shellcheck disable=SC2086
        task bandwidth-io write --file deep/er/b --bytes 3145728 --block 4096 --key 7 $way && ends_with 0
        says '"bytes": 3145728'
        # shellcheck disable=SC2086
        task bandwidth-io read --file deep/er/b --bytes 3145728 --block 1048576 --key 7 --cold $way && ends_with 0
        says '"cache": {"bytes": 3145728, '
        task bandwidth-io read --file deep/er/b --bytes 3145728 --block 65536 --key 8 && ends_with 1
        says 'the KiB at 0 is not what was written'
        task bandwidth-io check --file deep/er/b --bytes 3145728 --block 65536 --key 7 && ends_with 0
        says '"checked_bytes": 3145728'
    done
    task bandwidth-io read --file deep/er/b --bytes 1048576 --block 1048576 --key 7 --seconds 1 && ends_with 0
    corrupt "$work/deep/er/b" 2000001
    task bandwidth-io check --file deep/er/b --bytes 3145728 --block 65536 --key 7 && ends_with 1
    says 'the byte at 2000001 is not what was written'
    task bandwidth-io check --file deep/er/b --bytes 2097152 --block 65536 --key 7 && ends_with 1
    task bandwidth-io remove --file deep/er/b && ends_with 0
    gone deep/er
    task bandwidth-io write --file b --bytes 3000 --block 1000
    ends_with 2
    task bandwidth-io write --file no/such/b --bytes 4096 --block 4096
    ends_with 1

    task metadata-ops --dir ops --operations 50
    ends_with 0
    says '"file_remove": '
    [ ! -e "$work/ops" ] || wrong "the folder is left"
    mkdir "$work/ops"
    task metadata-ops --dir ops
    ends_with 1
    [ -d "$work/ops" ] || wrong "a folder of others was removed"
    task metadata-ops --dir x --operations 0
    ends_with 2
}

# One check, asked for by the lines below.
if [ "${1:-}" = --one ]; then
    check=$2
    "check_$check" >"$work.said" 2>&1
    # In one piece, since others print at the same time.
    { echo "$check"; grep -v "^Killed" "$work.said"; }
    rm -f "$work.said"
    [ "$failures" -eq 0 ]
    exit
fi

# What is longest begins first. They mostly wait for one another's processes, so more of them go at once than there are cores.
rm -rf "$results"
mkdir -p "$results"
if [ $# -eq 0 ]; then set -- stuck_aligner hang interrupted corruption quota space full les_io qcd_io cache bad_input argot_io dry_run tasks unit; fi
printf '%s\n' "$@" | xargs -P 4 -n 1 test/check.sh --one || { echo "some checks failed"; exit 1; }
echo "all well"
