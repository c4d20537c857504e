// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a registry calls: once for each name under which dat.conf, or the registry itself, has this
// library.
//
// It is not linked to a registry, since it works below any: it looks for the functions of the one
// that has loaded it. A process may have two, of DAT 1.2 and 2.0, which export the same names, so
// each is asked for by the library's name first.

#include "dapl/instance.hpp"
#include "dapl/lock.hpp"
#include "faces/faces.hpp"

#include <cstring>
#include <dlfcn.h>
#include <new>
#include <pthread.h>
#include <utility>

namespace coherdma::dapl {

namespace {

struct {
    lock guard;
    instance *first = nullptr;
    bool prepared = false;
} all;

/// With guard held: no fork happens while another thread has it, which its child has not.
void prepare_for_fork() noexcept {
    if (!std::exchange(all.prepared, true))
        pthread_atfork([] { all.guard.lock_it(); }, [] { all.guard.unlock(); },
                       [] { all.guard.unlock(); });
}

bool same(const DAT_PROVIDER_INFO &one, const DAT_PROVIDER_INFO &other) noexcept {
    return std::strncmp(one.ia_name, other.ia_name, sizeof one.ia_name) == 0 &&
           one.dapl_version_major == other.dapl_version_major &&
           one.dapl_version_minor == other.dapl_version_minor &&
           one.is_thread_safe == other.is_thread_safe;
}

instance *known(const DAT_PROVIDER_INFO &info) noexcept {
    for (instance *each = all.first; each != nullptr; each = each->next)
        if (same(each->info, info))
            return each;
    return nullptr;
}

/// A function of the registry, by name.
template <class function>
function *of_registry(const char *name) noexcept {
    void *found = nullptr;
    if (void *const library = dlopen("libdat2.so.2", RTLD_LAZY | RTLD_NOLOAD)) {
        found = dlsym(library, name);
        dlclose(library);
    }
    if (found == nullptr)
        found = dlsym(RTLD_DEFAULT, name);
    return reinterpret_cast<function *>(found);
}

instance *make(const DAT_PROVIDER_INFO &info, const char *words) noexcept {
    const holding held(all.guard);
    prepare_for_fork();
    instance *one = known(info);
    if (one == nullptr) {
        one = new (std::nothrow) instance();
        if (one == nullptr)
            return nullptr;
        one->info = info;
        one->info.ia_name[sizeof one->info.ia_name - 1] = '\0';
        one->table = table_of_dat2(one->info.ia_name, one->info.is_thread_safe);
        one->next = all.first;
        all.first = one;
    }
    one->device = words != nullptr ? words : "";
    one->public_handle =
        of_registry<DAT_RETURN(DAT_IA_HANDLE, DAT_IA_HANDLE *)>("dats_get_ia_handle");
    one->ready = true;
    return one;
}

} // namespace

instance *find_instance(const char *name, DAT_BOOLEAN thread_safe) noexcept {
    const holding held(all.guard);
    instance *found = nullptr;
    for (instance *each = all.first; each != nullptr; each = each->next)
        if (each->ready && std::strcmp(each->info.ia_name, name) == 0 &&
            (found == nullptr || each->info.is_thread_safe == thread_safe))
            found = each;
    return found;
}

} // namespace coherdma::dapl

using namespace coherdma::dapl;

extern "C" {

[[gnu::visibility("default")]] void dat_provider_init(const DAT_PROVIDER_INFO *info,
                                                      const char *words) {
    auto *const add = of_registry<DAT_RETURN(const DAT_PROVIDER *, const DAT_PROVIDER_INFO *)>(
        "dat_registry_add_provider");
    if (info == nullptr || add == nullptr)
        return;
    if (instance *const one = make(*info, words))
        add(&one->table, info);
}

[[gnu::visibility("default")]] void dat_provider_fini(const DAT_PROVIDER_INFO *info) {
    auto *const remove = of_registry<DAT_RETURN(const DAT_PROVIDER *, const DAT_PROVIDER_INFO *)>(
        "dat_registry_remove_provider");
    instance *one = nullptr;
    if (info != nullptr) {
        const holding held(all.guard);
        one = known(*info);
        if (one != nullptr)
            one->ready = false;
    }
    if (one != nullptr && remove != nullptr)
        remove(&one->table, info);
}

/// Its presence says that there are extensions; OFED's registry looks, and nobody calls it.
[[gnu::visibility("default")]] DAT_RETURN dapl_extensions(DAT_HANDLE, DAT_EXTENDED_OP, va_list);
DAT_RETURN dapl_extensions(DAT_HANDLE handle, DAT_EXTENDED_OP operation, va_list arguments) {
    return table_of_dat2("", DAT_FALSE).handle_extendedop_func(handle, operation, arguments);
}
}
