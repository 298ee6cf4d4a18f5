/* Runs an aligner that others have written, and does not wait for ever for one whose threads have
 * deadlocked. */
#ifndef IOBENCH_ALIGNER_H
#define IOBENCH_ALIGNER_H

#include <stddef.h>
#include <stdint.h>

/* What the aligner has printed; `data` is the caller's to free, and NULL when it has printed nothing. */
struct aligner_text {
    char *data;
    size_t bytes, room;
};

/* Timeout for an aligner that uses no processor time, s: HOMOLOGY_STILL_S, or 120. */
uint64_t aligner_limit(void);

/* Runs the command in `words` (a name in PATH, then its arguments, then NULL) and returns what it has printed
 * to stdout. An aligner that uses less than 1 % of a processor for `limit_s` seconds, and prints nothing, is
 * killed and started again, at most twice; stderr reports each time. Only the process itself is looked at: a
 * script around an aligner must `exec` it. Ends the program when the aligner fails; `on` is the file that the
 * message names. Uses SIGALRM and the real-time timer meanwhile. */
struct aligner_text aligner_run(char *const *words, const char *on, uint64_t limit_s);

#endif
