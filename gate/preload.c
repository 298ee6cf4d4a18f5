/*
 * librakuda_gate.so: holds a dynamic program at the gate after its libraries are ready and before its own
 * code runs.
 *
 * Loaded by LD_PRELOAD as /proc/self/fd/N. Needs no symbol but `environ`, which every C library has, so that
 * it can be loaded beside any of them. See rakuda_gate.h for what it does to the process.
 */
#include "cache.h"

/* Weak: a program without a C library has none, and then is not held. */
extern char **environ __attribute__((weak));

__attribute__((constructor)) static void hold(void) {
    int fields[RAKUDA_GATE_FIELDS];
    if (&environ != (char ***)0 && rakuda_gate_take(environ, fields)) {
        rakuda_gate_obey(fields);
        rakuda_gate_pass(fields, RAKUDA_GATE_PRELOAD);
    }
}
