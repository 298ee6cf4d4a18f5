/*
 * What stands for ssh where leaders of many groups start agents that are made up (bench/agents --groups).
 *
 * usage: ssh [OPTION ...] HOST SCRIPT
 *
 * A host whose name begins with s is an agent: says what the script would say when the agent is to begin, and hands its
 * stdin and stdout to the process that listens at the socket SWARM_SOCKET, together with the host's name. It lives until
 * that process closes the connection. Every other host is this machine: sh runs the script. Exit status: 0; 1 with a word
 * on stderr when nothing can be handed over.
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
    const char *path = getenv("SWARM_SOCKET"), *mark = strstr(script, "echo rakuda-");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL || mark == NULL || strlen(path) >= sizeof address.sun_path) {
        fputs("expected SWARM_SOCKET, and a script with a mark\n", stderr);
        return 1;
    }
    mark += strlen("echo ");
    printf("%.*s: link\n", (int)(sizeof MARK - 1) + TOKEN_BYTES, mark);
    if (fflush(stdout) != 0) return fail("stdout");
    strcpy(address.sun_path, path);
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
    if (sendmsg(swarm, &message, 0) < 0) return fail("hand over");
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    char byte;
    while (read(swarm, &byte, 1) > 0) continue;
    return 0;
}
