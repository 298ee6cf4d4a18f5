/*
 * What stands for ssh where leaders of many groups start agents that are made up (bench/agents --groups).
 *
 * usage: ssh [OPTION ...] HOST SCRIPT
 *
 * A host sNNNNN is an agent: says what the script would say when the agent is to begin, hands its stdin and stdout to one
 * of the processes that listen at the sockets SWARM_SOCKET.0 to one less than SWARM_SOCKETS, and ends. That gets the
 * host's name with them; which process it is, is the number modulo theirs. Every other host is this machine: sh runs the
 * script. Exit status: 0; 1 with a word on stderr when nothing can be handed over.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char MARK[] = "rakuda-";
enum { TOKEN_BYTES = 16 };

static int fail(const char *what) {
    perror(what);
    return 1;
}

int main(int count, char **words) {
    if (count < 3) {
        fputs("usage: ssh [OPTION ...] HOST SCRIPT\n", stderr);
        return 1;
    }
    const char *host = words[count - 2], *script = words[count - 1];
    if (host[0] != 's') {
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        return fail("/bin/sh");
    }
    const char *path = getenv("SWARM_SOCKET"), *count_text = getenv("SWARM_SOCKETS"), *mark = strstr(script, "echo rakuda-");
    const long sockets = count_text == NULL ? 0 : strtol(count_text, NULL, 10);
    if (path == NULL || sockets < 1 || mark == NULL) {
        fputs("expected SWARM_SOCKET, SWARM_SOCKETS, and a script with a mark\n", stderr);
        return 1;
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const long part = strtol(host + 1, NULL, 10) % sockets;
    const int length = snprintf(address.sun_path, sizeof address.sun_path, "%s.%ld", path, part);
    if (length < 0 || (size_t)length >= sizeof address.sun_path) {
        fputs("expected a shorter SWARM_SOCKET\n", stderr);
        return 1;
    }
    mark += strlen("echo ");
    printf("%.*s: link\n", (int)(sizeof MARK - 1) + TOKEN_BYTES, mark);
    if (fflush(stdout) != 0) return fail("stdout");
    int swarm = socket(AF_UNIX, SOCK_STREAM, 0);
    if (swarm < 0 || connect(swarm, (struct sockaddr *)&address, sizeof address) != 0) return fail(path);
    const int handed[2] = {STDIN_FILENO, STDOUT_FILENO};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof handed)];
    } control = {{0}};
    struct iovec name = {.iov_base = (void *)host, .iov_len = strlen(host)};
    struct msghdr message = {.msg_iov = &name, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof handed);
    memcpy(CMSG_DATA(rights), handed, sizeof handed);
    return sendmsg(swarm, &message, 0) < 0 ? fail("hand over") : 0;
}
