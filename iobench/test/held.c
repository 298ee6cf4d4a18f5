/* Keeps the pages of files in the page cache, mapped, as a program that uses them does: nobody's
 * posix_fadvise drops them. Prints a line when they are there, and ends with its stdin.
 *
 * usage: held FILE... */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int count, char **words) {
    for (int i = 1; i < count; i++) {
        struct stat facts;
        int fd = open(words[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &facts) != 0) {
            perror(words[i]);
            return 1;
        }
        if (mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0) == MAP_FAILED) {
            perror("mmap");
            return 1;
        }
        close(fd);
    }
    puts("held");
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    return 0;
}
