/* Linked into what the sanitizers watch: libraries stay loaded, so that the leaks of Open MPI's modules,
 * which it closes at its end, still have names when they are reported, and test/leaks.txt can name them. */
int dlclose(void *handle);

int dlclose(void *handle) {
    (void)handle;
    return 0;
}
