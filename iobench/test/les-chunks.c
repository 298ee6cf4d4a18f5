/* Prints where HDF5 has put a netCDF-4 file's variables: a line for each chunk, or for the whole of a
 * contiguous one.
 *
 * usage: les-chunks FILE       prints NAME, START, OFFSET, BYTES with tabs between them; exits with 1 after
 * an error */
#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>

static herr_t print_dataset(hid_t group, const char *name, const H5L_info_t *info, void *context) {
    (void)info;
    (void)context;
    hid_t set = H5Dopen2(group, name, H5P_DEFAULT);
    if (set < 0)
        return -1;
    hid_t space = H5Dget_space(set), creation = H5Dget_create_plist(set);
    int dimensions = H5Sget_simple_extent_ndims(space);
    hsize_t count = 0;
    herr_t status = 0;
    if (H5Pget_layout(creation) == H5D_CHUNKED) {
        status = H5Dget_num_chunks(set, space, &count);
        for (hsize_t n = 0; n < count && status >= 0; n++) {
            hsize_t start[H5S_MAX_RANK], bytes = 0;
            unsigned mask = 0;
            haddr_t address = 0;
            status = H5Dget_chunk_info(set, space, n, start, &mask, &address, &bytes);
            printf("%s\t", name);
            for (int d = 0; d < dimensions; d++)
                printf("%s%" PRIuMAX, d > 0 ? "," : "", (uintmax_t)start[d]);
            printf("\t%" PRIuMAX "\t%" PRIuMAX "\n", (uintmax_t)address, (uintmax_t)bytes);
        }
    } else if (H5Dget_offset(set) != HADDR_UNDEF) {
        printf("%s\t0\t%" PRIuMAX "\t%" PRIuMAX "\n", name, (uintmax_t)H5Dget_offset(set),
               (uintmax_t)H5Dget_storage_size(set));
    }
    H5Pclose(creation);
    H5Sclose(space);
    H5Dclose(set);
    return status;
}

int main(int argc, char **argv) {
    if (argc != 2)
        return fputs("usage: les-chunks FILE\n", stderr), 2;
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0)
        return 1;
    herr_t status = H5Literate(file, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, print_dataset, NULL);
    H5Fclose(file);
    return status < 0;
}
