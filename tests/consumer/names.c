/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A program of another project, in what C and C++ have in common. Without arguments it lists the
 * IAs of the registry, else it opens those that the arguments name, after -t with thread safety. */
#ifdef NAMES_DAT1
#    include <dat/udat.h>
#else
#    include <dat2/udat.h>
#endif

#include <stdio.h>
#include <string.h>

enum { MAX_IAS = 256 };

static void list_ias(void) {
    static DAT_PROVIDER_INFO infos[MAX_IAS];
    DAT_PROVIDER_INFO *pointers[MAX_IAS];
    DAT_COUNT count = 0, i;
    for (i = 0; i < MAX_IAS; ++i)
        pointers[i] = &infos[i];
    if (dat_registry_list_providers(MAX_IAS, &count, pointers) != DAT_SUCCESS)
        return;
    for (i = 0; i < count; ++i)
        printf("%s %u.%u%s\n", infos[i].ia_name, infos[i].dapl_version_major,
               infos[i].dapl_version_minor, infos[i].is_thread_safe ? " threadsafe" : "");
}

static int can_open(char *name, DAT_BOOLEAN thread_safe) {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    const char *type, *subtype;
    DAT_RETURN status =
        dat_ia_openv(name, 8, &async_evd, &ia, DAT_VERSION_MAJOR, DAT_VERSION_MINOR, thread_safe);
    if (status == DAT_SUCCESS)
        status = dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
    dat_strerror(status, &type, &subtype);
    printf("%s: %s %s\n", name, type, subtype);
    return status == DAT_SUCCESS;
}

int main(int argc, char **argv) {
    DAT_BOOLEAN thread_safe = DAT_FALSE;
    int all_opened = 1, i;
    if (argc < 2)
        list_ias();
    for (i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "-t") == 0)
            thread_safe = DAT_TRUE;
        else
            all_opened &= can_open(argv[i], thread_safe);
    }
    return !all_opened;
}
