/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A program of another project, in what C and C++ have in common: which IAs there are, and, of
 * those that it is given by name, whether they can be opened. */
#ifdef NAMES_DAT1
#    include <dat/udat.h>
#else
#    include <dat2/udat.h>
#endif

#include <stdio.h>

enum { MOST = 256 };

static void list(void) {
    static DAT_PROVIDER_INFO infos[MOST];
    DAT_PROVIDER_INFO *pointers[MOST];
    DAT_COUNT count = 0, place;
    for (place = 0; place < MOST; ++place)
        pointers[place] = &infos[place];
    if (dat_registry_list_providers(MOST, &count, pointers) != DAT_SUCCESS)
        return;
    for (place = 0; place < count; ++place)
        printf("%s %u.%u%s\n", infos[place].ia_name, infos[place].dapl_version_major,
               infos[place].dapl_version_minor, infos[place].is_thread_safe ? " threadsafe" : "");
}

static int can_open(char *name) {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE events = DAT_HANDLE_NULL;
    const char *type, *subtype;
    DAT_RETURN status = dat_ia_open(name, 8, &events, &ia);
    if (status == DAT_SUCCESS)
        status = dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
    dat_strerror(status, &type, &subtype);
    printf("%s: %s %s\n", name, type, subtype);
    return status == DAT_SUCCESS;
}

int main(int count, char **names) {
    int right = 1, place;
    if (count < 2)
        list();
    for (place = 1; place < count; ++place)
        right &= can_open(names[place]);
    return !right;
}
