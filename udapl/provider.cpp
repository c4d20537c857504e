// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a registry calls: once for each name under which dat.conf, or the registry itself, has this
// library.
//
// It is not linked to a registry, since it works below any: it looks for the functions of the one
// that has loaded it. A process may have two, of DAT 1.2 and 2.0, which export the same names, so
// each is asked for by the library's name. Only where neither is known by its name there is but
// one, and it is found anywhere: a table of the other version would be the end of the program.

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

/// A loaded library, or nullptr.
class loaded {
  public:
    explicit loaded(const char *name) noexcept
        : library(dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) {}
    ~loaded() {
        if (library != nullptr)
            dlclose(library);
    }
    loaded(const loaded &) = delete;
    loaded &operator=(const loaded &) = delete;
    operator void *() const noexcept { return library; }

  private:
    void *const library;
};

/// The registry of the version that info is of.
class registry {
  public:
    explicit registry(const DAT_PROVIDER_INFO &info) noexcept
        : of_dat1(is_of_dat1(info)) {}

    /// Its function, by name.
    template <class function>
    function *find(const char *name) const noexcept {
        if (own())
            return reinterpret_cast<function *>(dlsym(own(), name));
        return other() ? nullptr : reinterpret_cast<function *>(dlsym(RTLD_DEFAULT, name));
    }

    /// OFED's for 1.2 calls ia_open_func without the argument that came with Solaris, whose version
    /// node it does not have.
    bool tells_ro_aware() const noexcept {
        return of_dat1 && (!own() || dlvsym(own(), "dat_ia_openv", "DAT_1.2") == nullptr ||
                           dlvsym(own(), "dat_ia_openv", "SUNW_1.1") != nullptr);
    }

  private:
    const loaded &own() const noexcept { return of_dat1 ? one : two; }
    const loaded &other() const noexcept { return of_dat1 ? two : one; }

    const bool of_dat1;
    const loaded one{"libdat.so.1"}, two{"libdat2.so.2"};
};

/// An instance, and the table that it is about.
template <class functions>
struct instance_with : instance {
    using filling = functions (*)(const char *name, DAT_BOOLEAN thread_safe) noexcept;
    instance_with(const DAT_PROVIDER_INFO &as, filling fill) noexcept
        : instance() {
        info = as;
        info.ia_name[sizeof info.ia_name - 1] = '\0';
        calls = fill(info.ia_name, info.is_thread_safe);
        table = reinterpret_cast<DAT_PROVIDER *>(&calls);
    }

    functions calls;
};

instance *made_for(const DAT_PROVIDER_INFO &info) noexcept {
    if (is_of_dat1(info))
        return new (std::nothrow) instance_with<dat1::provider>(info, table_of_dat1);
    return new (std::nothrow) instance_with<DAT_PROVIDER>(info, table_of_dat2);
}

instance *make(const DAT_PROVIDER_INFO &info, const char *words, const registry &of) noexcept {
    const holding held(all.guard);
    prepare_for_fork();
    instance *one = known(info);
    if (one == nullptr) {
        one = made_for(info);
        if (one == nullptr)
            return nullptr;
        one->next = all.first;
        all.first = one;
    }
    one->device = words != nullptr ? words : "";
    one->public_handle = of.find<DAT_RETURN(DAT_IA_HANDLE, DAT_IA_HANDLE *)>("dats_get_ia_handle");
    one->tells_ro_aware = of.tells_ro_aware();
    one->ready = true;
    return one;
}

} // namespace

instance *find_instance(const char *name, DAT_UINT32 version, DAT_BOOLEAN thread_safe) noexcept {
    const holding held(all.guard);
    instance *found = nullptr;
    for (instance *each = all.first; each != nullptr; each = each->next)
        if (each->ready && is_of_dat1(each->info) == (version == 1) &&
            std::strcmp(each->info.ia_name, name) == 0 &&
            (found == nullptr || each->info.is_thread_safe == thread_safe))
            found = each;
    return found;
}

} // namespace coherdma::dapl

using namespace coherdma::dapl;

namespace {

/// dat_registry_add_provider, and _remove_provider. A registry of 1.2 takes the address of a table
/// of 1.2, which is no DAT_PROVIDER of 2.0; what it is to this library is nothing to the registry.
using registration = DAT_RETURN(const DAT_PROVIDER *, const DAT_PROVIDER_INFO *);

} // namespace

extern "C" {

[[gnu::visibility("default")]] void dat_provider_init(const DAT_PROVIDER_INFO *info,
                                                      const char *words) {
    if (info == nullptr)
        return;
    const registry of(*info);
    auto *const add = of.find<registration>("dat_registry_add_provider");
    if (add == nullptr)
        return;
    if (instance *const one = make(*info, words, of))
        add(one->table, info);
}

[[gnu::visibility("default")]] void dat_provider_fini(const DAT_PROVIDER_INFO *info) {
    if (info == nullptr)
        return;
    instance *one;
    {
        const holding held(all.guard);
        one = known(*info);
        if (one != nullptr)
            one->ready = false;
    }
    auto *const remove = registry(*info).find<registration>("dat_registry_remove_provider");
    if (one != nullptr && remove != nullptr)
        remove(one->table, info);
}

/// Its presence says that there are extensions; OFED's registry looks, and nobody calls it.
[[gnu::visibility("default")]] DAT_RETURN dapl_extensions(DAT_HANDLE, DAT_EXTENDED_OP, va_list);
DAT_RETURN dapl_extensions(DAT_HANDLE handle, DAT_EXTENDED_OP operation, va_list arguments) {
    return table_of_dat2("", DAT_FALSE).handle_extendedop_func(handle, operation, arguments);
}
}
