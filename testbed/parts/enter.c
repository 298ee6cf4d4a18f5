/* enter PID FOLDER CMD [ARG...]: runs a command in the namespaces of process PID, in FOLDER as it is seen there.
 *
 * nsenter(1) does the same, but a signal sent to it does not reach the command, so that a run on a host could not be
 * interrupted from outside. This passes on SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2, kills the command when it
 * is killed itself, and ends as the command ended: with its exit status, or by its signal. A signal that the terminal
 * sent has reached the command already and is not passed on.
 *
 * FOLDER "." is the current one; it must be the same folder there. Exit status 125: the command could not be started;
 * 127: no such command. It knows nothing of testbeds, cgroups or users. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The command's process, for the handler; 0 before there is one. */
static volatile sig_atomic_t command;
static const int passed[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
enum { PASSED = sizeof passed / sizeof *passed };

static void pass_on(int number, siginfo_t *info, void *context)
{
	int saved = errno;

	(void)context;
	if (command > 0 && info->si_code != SI_KERNEL)
		kill((pid_t)command, number);
	errno = saved;
}

static void fail(const char *what, const char *name)
{
	fprintf(stderr, "testbed: %s %s: %s\n", what, name, strerror(errno));
	exit(125);
}

/* All namespaces are opened before the first is entered: /proc is another one afterwards. */
static void join(const char *pid)
{
	static const char *const kinds[] = { "mnt", "uts", "ipc", "net", "pid" };
	int opened[5];
	char path[64];

	for (int i = 0; i < 5; i++) {
		snprintf(path, sizeof path, "/proc/%s/ns/%s", pid, kinds[i]);
		opened[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (opened[i] < 0)
			fail("open", path);
	}
	for (int i = 0; i < 5; i++) {
		if (setns(opened[i], 0) < 0)
			fail("enter namespace", kinds[i]);
		close(opened[i]);
	}
}

/* `here` is the wanted folder as it is seen from outside. */
static void change_to(const char *folder, const struct stat *here)
{
	struct stat there;

	if (chdir(folder) == 0 && (!here || (stat(".", &there) == 0 && there.st_dev == here->st_dev && there.st_ino == here->st_ino)))
		return;
	fprintf(stderr, "testbed: the folder %s is not on that host, where /tmp, /run and /srv are its own; "
		"change to another one, say which with exec -C FOLDER, or give testbed/up VISIBLE=FOLDER\n", folder);
	exit(125);
}

static void run(char **words, const sigset_t *signals)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* A terminal belongs to one process group; without one, a signal to the caller's group must come once, from the caller. */
	if (!isatty(STDIN_FILENO))
		setpgid(0, 0);
	sigprocmask(SIG_SETMASK, signals, NULL);
	execvp(words[0], words);
	fprintf(stderr, "testbed: %s: %s\n", words[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 125);
}

static void end_as(int status)
{
	if (WIFSIGNALED(status)) {
		const struct rlimit none = { 0, 0 };

		setrlimit(RLIMIT_CORE, &none);
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
	}
	exit(WEXITSTATUS(status));
}

int main(int count, char **words)
{
	struct sigaction action = { .sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART };
	sigset_t blocked, before;
	struct stat here;
	char folder[4096];
	int status;

	if (count < 4) {
		fprintf(stderr, "usage: enter PID FOLDER CMD [ARG...]\n");
		return 125;
	}
	int current = strcmp(words[2], ".") == 0;
	snprintf(folder, sizeof folder, "%s", words[2]);
	if (current && (!getcwd(folder, sizeof folder) || stat(".", &here) < 0))
		fail("look at", "the current folder");
	join(words[1]);
	change_to(folder, current ? &here : NULL);
	sigemptyset(&blocked);
	for (int i = 0; i < PASSED; i++)
		sigaddset(&blocked, passed[i]);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	pid_t child = fork();
	if (child < 0)
		fail("start", words[3]);
	if (child == 0)
		run(words + 3, &before);
	command = child;
	for (int i = 0; i < PASSED; i++)
		sigaction(passed[i], &action, NULL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			fail("wait for", words[3]);
	end_as(status);
}
