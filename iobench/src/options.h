/* The command line: tables of options, read into the variables that they name.
 *
 * Every option is long and has a value, but for switches. A value that is wrong ends the program with
 * EXIT_USAGE and says what was expected. It does not know what the options mean. */
#ifndef IOBENCH_OPTIONS_H
#define IOBENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum option_kind {
    OPTION_SWITCH, /* bool */
    OPTION_COUNT,  /* int64_t, from `low` to `high` */
    OPTION_BYTES,  /* likewise, with K, M, G or T for powers of 1024 */
    OPTION_TIME,   /* double, seconds, 0 or more */
    OPTION_TEXT,   /* const char *, not empty */
    OPTION_WORD,   /* int: the place of the value in `words` (a|b|c) */
    OPTION_WORDS,  /* unsigned: bits of the words of a list with commas */
    OPTION_SHAPE   /* int64_t[`low`]: 4x8x8 */
};

struct option {
    const char *name; /* without --; NULL ends a table */
    enum option_kind kind;
    void *value;
    int64_t low, high; /* OPTION_SHAPE: low is how many numbers, each from 1 to high */
    const char
        *words; /* of OPTION_WORD and OPTION_WORDS: a|b|c; else what stands in the help for the value */
    const char *help;
    bool *given; /* set when the option is given; may be NULL */
};

/* Reads all arguments by the tables, the last of which is followed by NULL. */
void options_read(int argc, char **argv, const struct option *const *tables);

/* Prints the tables for --help. */
void options_help(const struct option *const *tables);

/* The word of a list a|b|c at a place. The text lives until the next call but three. */
const char *options_word(const char *words, int place);

#endif
