/*
 * The floor of the comparison: runs the commands of a list with as little around them as the system allows.
 *
 * usage: floor SLOTS LIST
 *
 * LIST has one command a line, its words separated by tabs; a line `wait` is a barrier. Between two barriers SLOTS
 * processes take commands from one counter, and each starts its command with posix_spawn and waits for it.
 * Side effects: those of the commands. Everything allocated lives until the program ends. Exit status: 0 when every
 * command ended with 0, else 1. It does not know what the commands do.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Ends the program with a message about `what` and errno. */
static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* The whole file as a string that the caller owns. */
static char *read_list(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        fail(path);
    long bytes = ftell(file);
    if (bytes < 0 || fseek(file, 0, SEEK_SET) != 0)
        fail(path);
    char *text = calloc((size_t)bytes + 1, 1);
    if (text == NULL || fread(text, 1, (size_t)bytes, file) != (size_t)bytes)
        fail(path);
    fclose(file);
    return text;
}

/* Splits `text` in place at `separator`; the NULL-terminated vector belongs to the caller. */
static char **split(char *text, char separator)
{
    size_t count = 2;
    for (const char *c = text; *c != '\0'; c++)
        count += *c == separator;
    char **parts = calloc(count, sizeof *parts);
    if (parts == NULL)
        fail("split");
    char *rest = text;
    const char delimiters[] = {separator, '\0'};
    for (size_t i = 0; rest != NULL && *rest != '\0'; i++)
        parts[i] = strsep(&rest, delimiters);
    return parts;
}

/* Runs one command and returns whether it ended with 0. */
static int run(char **words)
{
    pid_t child;
    int status;
    errno = posix_spawnp(&child, words[0], NULL, NULL, words, environ);
    if (errno != 0)
        fail(words[0]);
    if (waitpid(child, &status, 0) != child)
        fail("waitpid");
    return status == 0;
}

/* Runs commands[0 .. count) in `slots` processes and returns whether all ended with 0. */
static int run_phase(char ***commands, long count, long slots, atomic_long *next)
{
    int good = 1;
    atomic_store(next, 0);
    for (long slot = 0; slot < slots; slot++) {
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (child == 0) {
            for (long i; (i = atomic_fetch_add(next, 1)) < count;)
                good &= run(commands[i]);
            _exit(good ? 0 : 1);
        }
    }
    for (long slot = 0; slot < slots; slot++) {
        int status;
        if (wait(&status) < 0)
            fail("wait");
        good &= status == 0;
    }
    return good;
}

int main(int count, char **arguments)
{
    if (count != 3 || atol(arguments[1]) < 1) {
        fprintf(stderr, "usage: floor SLOTS LIST\n");
        return 1;
    }
    long slots = atol(arguments[1]);
    char **lines = split(read_list(arguments[2]), '\n');
    size_t total = 0;
    while (lines[total] != NULL)
        total++;
    char ***commands = calloc(total + 1, sizeof *commands);
    atomic_long *next = mmap(NULL, sizeof *next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (commands == NULL || next == MAP_FAILED)
        fail("allocate");

    int good = 1;
    long queued = 0;
    for (size_t line = 0; line < total; line++) {
        if (strcmp(lines[line], "wait") != 0) {
            commands[queued++] = split(lines[line], '\t');
            continue;
        }
        good &= run_phase(commands, queued, slots, next);
        queued = 0;
    }
    good &= run_phase(commands, queued, slots, next);
    return good ? 0 : 1;
}
