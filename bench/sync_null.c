/*
 * A program that does nothing but note when it began: FOLDER/ROUND is a file, in which place WORKER (16 bytes each) gets
 * the monotonic clock, ns, and the processor. ROUND is RAKUDA_ROUND, or the third word. For bench/sync. The file is
 * there before: making one takes longer than all else, and with more workers than processors others wait for that.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const char *round = count > 3 ? words[3] : getenv("RAKUDA_ROUND");
    char path[4096] = "";
    if (count < 3 || round == NULL || strlen(words[1]) + strlen(round) + 2 > sizeof path) {
        return 2;
    }
    strcat(strcat(strcpy(path, words[1]), "/"), round);
    int64_t note[2] = {(int64_t)now.tv_sec * 1000000000 + now.tv_nsec, sched_getcpu()};
    int file = open(path, O_WRONLY);
    return file >= 0 && pwrite(file, note, sizeof note, 16 * atol(words[2])) == sizeof note ? 0 : 1;
}
