/* The files and folders that a run makes, and their removal: in order at the end, and in haste when a signal
 * or a failure ends the run.
 *
 * All of them are below one folder, which rank 0 makes by a mkdir that fails when the name is taken. So
 * whatever has one of the declared names in it is the run's own, and nothing else is ever removed: folders go
 * only when they are empty. In haste a rank removes its own files and those of the next rank, so that those
 * of a rank that was killed go, too. */
#ifndef IOBENCH_OWN_H
#define IOBENCH_OWN_H

#include <stdbool.h>

/* Installs handlers for SIGINT, SIGTERM, SIGHUP, SIGALRM. Before anything is made. */
void own_install_handlers(void);

/* Ends this process after so many seconds, which nothing takes back. It says where it is, and gets SIGALRM;
 * where it is still there then, SIGKILL: a rank within a call to a file system that does not answer takes no
 * other signal. `option`: which limit that is. */
void own_end_after(double seconds, const char *option);

/* Where this rank is, for what is said when it is ended: "is within step u of instant_write 0". */
void own_is(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Declares a name; all names before `own_arm`. `folder`: given by every rank, outer ones first. */
void own_declare_file(const char *path);
void own_declare_folder(const char *path);

/* From here on the declared names are the run's own. */
void own_arm(void);

/* The files and folders are to stay: nothing is removed from now on. */
void own_disarm(void);

/* Removes what is there of the declared names. Async-signal-safe; does nothing unless armed. */
void own_remove_in_haste(void);

/* Collective. Removes all files, then, on rank 0, the folders. */
void own_remove_in_order(void);

#endif
