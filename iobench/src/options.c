#include "options.h"
#include "base.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *options_word(const char *words, int place) {
    static char texts[4][32];
    static int turn;
    char *out = texts[turn++ % 4];
    const char *start = words;
    for (int i = 0; i < place; i++)
        start = strchr(start, '|') + 1;
    print_into(out, sizeof texts[0], "%.*s", (int)strcspn(start, "|"), start);
    return out;
}

/* The place of the first `length` bytes of `text` in a list a|b|c, or -1. */
static int place_of(const char *words, const char *text, size_t length) {
    int place = 0;
    for (const char *word = words;; place++) {
        size_t size = strcspn(word, "|");
        if (size == length && strncmp(word, text, size) == 0)
            return place;
        if (word[size] == '\0')
            return -1;
        word += size + 1;
    }
}

static int64_t number(const struct option *option, const char *text, const char *end_wanted,
                      const char **end) {
    errno = 0;
    char *stop = NULL;
    intmax_t value = strtoimax(text, &stop, 10);
    int64_t low = option->kind == OPTION_SHAPE ? 1 : option->low;
    int shift = 0;
    if (option->kind == OPTION_BYTES && *stop != '\0') {
        const char *unit = strchr("KMGT", *stop);
        if (unit != NULL) {
            shift = 10 * (int)(unit - "KMGT" + 1);
            stop++;
        }
    }
    if (stop == text || errno != 0 || strchr(end_wanted, *stop) == NULL || text[0] == '+' || text[0] == ' ' ||
        value < low || value > option->high >> shift)
        usage_error("--%s %s: expected %s from %" PRId64 " to %" PRId64, option->name, text,
                    option->kind == OPTION_SHAPE ? "numbers with x between them, each" : "a number", low,
                    option->high);
    *end = stop;
    return (int64_t)value << shift;
}

static void read_shape(const struct option *option, const char *text) {
    int64_t *out = option->value;
    const char *at = text;
    for (int64_t i = 0; i < option->low; i++) {
        out[i] = number(option, at, "x", &at);
        bool last = i + 1 == option->low;
        if (last != (*at == '\0'))
            usage_error("--%s %s: expected %" PRId64 " numbers with x between them", option->name, text,
                        option->low);
        at++;
    }
}

static void read_words(const struct option *option, const char *text) {
    unsigned bits = 0;
    for (const char *at = text;;) {
        size_t size = strcspn(at, ",");
        int place = place_of(option->words, at, size);
        if (place < 0)
            usage_error("--%s %s: expected words of %s with commas between them", option->name, text,
                        option->words);
        bits |= 1U << place;
        if (at[size] == '\0')
            break;
        at += size + 1;
    }
    *(unsigned *)option->value = bits;
}

static void read_value(const struct option *option, const char *text) {
    const char *end = NULL;
    char *stop = NULL;
    switch (option->kind) {
    case OPTION_SWITCH:
        *(bool *)option->value = true;
        break;
    case OPTION_COUNT:
    case OPTION_BYTES:
        *(int64_t *)option->value = number(option, text, "", &end);
        break;
    case OPTION_TIME:
        *(double *)option->value = strtod(text, &stop);
        if (stop == text || *stop != '\0' || !(*(double *)option->value >= 0) ||
            *(double *)option->value > 1e9)
            usage_error("--%s %s: expected seconds, 0 or more", option->name, text);
        break;
    case OPTION_TEXT:
        if (text[0] == '\0')
            usage_error("--%s: expected %s, not nothing", option->name, option->words);
        *(const char **)option->value = text;
        break;
    case OPTION_WORD:
        *(int *)option->value = place_of(option->words, text, strlen(text));
        if (*(int *)option->value < 0)
            usage_error("--%s %s: expected one of %s", option->name, text, option->words);
        break;
    case OPTION_WORDS:
        read_words(option, text);
        break;
    case OPTION_SHAPE:
        read_shape(option, text);
        break;
    }
    if (option->given != NULL)
        *option->given = true;
}

static const struct option *find(const struct option *const *tables, const char *name, size_t length) {
    for (; *tables != NULL; tables++)
        for (const struct option *option = *tables; option->name != NULL; option++)
            if (strlen(option->name) == length && strncmp(option->name, name, length) == 0)
                return option;
    return NULL;
}

void options_read(int argc, char **argv, const struct option *const *tables) {
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strncmp(word, "--", 2) != 0)
            usage_error("%s: expected an option", word);
        size_t length = strcspn(word + 2, "=");
        const struct option *option = find(tables, word + 2, length);
        if (option == NULL)
            usage_error("%s: there is no such option", word);
        const char *text = word[2 + length] == '=' ? word + 3 + length : NULL;
        if (option->kind == OPTION_SWITCH) {
            if (text != NULL)
                usage_error("%s: --%s takes no value", word, option->name);
        } else if (text == NULL) {
            if (i + 1 == argc)
                usage_error("--%s: expected a value: %s", option->name, option->words);
            text = argv[++i];
        }
        read_value(option, text);
    }
}

void options_help(const struct option *const *tables) {
    for (; *tables != NULL; tables++)
        for (const struct option *option = *tables; option->name != NULL; option++) {
            char left[80];
            snprintf(left, sizeof left, "--%s%s%s", option->name, option->words != NULL ? " " : "",
                     option->words != NULL ? option->words : "");
            printf("  %-44s %s\n", left, option->help);
        }
}
