// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The entry points for a registry, which calls dat_provider_init for each dat.conf entry that names
// this library.
//
// The provider is not linked to a registry: it looks up the functions of the one that loaded it. A
// process may have two, of DAT 1.2 and 2.0, whose symbols have the same names, so each is looked up
// in its library. If neither library is loaded under its usual name, there is one registry, and
// RTLD_DEFAULT finds it. A registry must never get a table of the other version.

#include "dapl/core/instance.hpp"
#include "dapl/core/lock.hpp"
#include "dapl/event/event_thread.hpp"
#include "dispatch/dispatch.hpp"
#include "extensions/ib.hpp"

#include <cstring>
#include <dlfcn.h>
#include <new>
#include <pthread.h>
#include <utility>

namespace coherdma::dapl {

namespace {

struct {
    mutex lock;
    instance *first = nullptr;
    bool atfork_registered = false;
} instances;

/// Before an IA can be opened. The caller holds the lock. fork() does not take it: a registry calls
/// dat_provider_init under its own lock, which fork() takes after those of the Provider. So no
/// thread changes the instances during a fork, and the child only forgets a thread that was reading
/// them.
void register_atfork() noexcept {
    if (std::exchange(instances.atfork_registered, true))
        return;
    pthread_atfork(nullptr, nullptr, [] { new (&instances.lock) mutex; });
    event_thread::register_atfork();
}

bool is_same(const DAT_PROVIDER_INFO &a, const DAT_PROVIDER_INFO &b) noexcept {
    return std::strncmp(a.ia_name, b.ia_name, sizeof a.ia_name) == 0 &&
           a.dapl_version_major == b.dapl_version_major &&
           a.dapl_version_minor == b.dapl_version_minor && a.is_thread_safe == b.is_thread_safe;
}

instance *find_instance(const DAT_PROVIDER_INFO &info) noexcept {
    for (instance *it = instances.first; it != nullptr; it = it->next)
        if (is_same(it->info, info))
            return it;
    return nullptr;
}

/// A library that is already loaded, or nullptr.
class loaded_library {
  public:
    explicit loaded_library(const char *name) noexcept
        : handle(dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) {}
    ~loaded_library() {
        if (handle != nullptr)
            dlclose(handle);
    }
    loaded_library(const loaded_library &) = delete;
    loaded_library &operator=(const loaded_library &) = delete;
    operator void *() const noexcept { return handle; }

  private:
    void *const handle;
};

/// The registry of info's DAT version.
class registry {
  public:
    explicit registry(const DAT_PROVIDER_INFO &info) noexcept
        : dat1(is_dat1(info)) {}

    template <class function>
    function *find(const char *name) const noexcept {
        if (library())
            return reinterpret_cast<function *>(dlsym(library(), name));
        return other_library() ? nullptr : reinterpret_cast<function *>(dlsym(RTLD_DEFAULT, name));
    }

    /// False for OFED's DAT 1.2, whose registry calls ia_open_func without the argument ro_aware.
    /// Only ours has this function.
    bool passes_ro_aware() const noexcept {
        return dat1 && (!library() || dlsym(library(), "dat_coherdma_query_methods") != nullptr);
    }

  private:
    const loaded_library &library() const noexcept { return dat1 ? libdat : libdat2; }
    const loaded_library &other_library() const noexcept { return dat1 ? libdat2 : libdat; }

    const bool dat1;
    const loaded_library libdat{"libdat.so.1"}, libdat2{"libdat2.so.2"};
};

/// An instance with its table.
template <class table_type>
struct instance_with_table : instance {
    using make_table = table_type (*)(const char *name, DAT_BOOLEAN thread_safe) noexcept;
    instance_with_table(const DAT_PROVIDER_INFO &provider_info, make_table make) noexcept
        : instance() {
        info = provider_info;
        info.ia_name[sizeof info.ia_name - 1] = '\0';
        functions = make(info.ia_name, info.is_thread_safe);
        table = reinterpret_cast<DAT_PROVIDER *>(&functions);
    }

    table_type functions;
};

instance *create_instance(const DAT_PROVIDER_INFO &info) noexcept {
    if (is_dat1(info))
        return new (std::nothrow) instance_with_table<dat1::provider>(info, make_dat1_table);
    return new (std::nothrow) instance_with_table<DAT_PROVIDER>(info, make_dat2_table);
}

/// Finds or creates the instance, and initializes it. nullptr: out of memory.
instance *init_instance(const DAT_PROVIDER_INFO &info, const char *instance_data,
                        const registry &reg) noexcept try {
    const std::lock_guard guard(instances.lock);
    register_atfork();
    instance *inst = find_instance(info);
    if (inst == nullptr) {
        inst = create_instance(info);
        if (inst == nullptr)
            return nullptr;
        inst->next = instances.first;
        instances.first = inst;
    }
    inst->instance_data = instance_data != nullptr ? instance_data : "";
    inst->get_ia_handle =
        reg.find<DAT_RETURN(DAT_IA_HANDLE, DAT_IA_HANDLE *)>("dats_get_ia_handle");
    inst->passes_ro_aware = reg.passes_ro_aware();
    inst->initialized = true;
    return inst;
} catch (const std::bad_alloc &) {
    return nullptr;
}

} // namespace

/// The initialized instance of this name for a registry of this version, or nullptr. If there are
/// two, the one with this thread safety.
instance *find_instance(const char *name, DAT_UINT32 version, DAT_BOOLEAN thread_safe) noexcept {
    const std::lock_guard guard(instances.lock);
    instance *best = nullptr;
    for (instance *it = instances.first; it != nullptr; it = it->next)
        if (it->initialized && is_dat1(it->info) == (version == 1) &&
            std::strcmp(it->info.ia_name, name) == 0 &&
            (best == nullptr || it->info.is_thread_safe == thread_safe))
            best = it;
    return best;
}

} // namespace coherdma::dapl

using namespace coherdma::dapl;

namespace {

/// The type of dat_registry_add_provider and dat_registry_remove_provider. For a registry of DAT
/// 1.2 the first argument points to a table of DAT 1.2.
using registration_function = DAT_RETURN(const DAT_PROVIDER *, const DAT_PROVIDER_INFO *);

} // namespace

extern "C" {

[[gnu::visibility("default")]] void dat_provider_init(const DAT_PROVIDER_INFO *info,
                                                      const char *instance_data) {
    if (info == nullptr)
        return;
    const registry reg(*info);
    auto *const add_provider = reg.find<registration_function>("dat_registry_add_provider");
    if (add_provider == nullptr)
        return;
    if (instance *const inst = init_instance(*info, instance_data, reg))
        add_provider(inst->table, info);
}

/// The registry calls this before it unloads the provider of an IA name.
[[gnu::visibility("default")]] void dat_provider_fini(const DAT_PROVIDER_INFO *info) {
    if (info == nullptr)
        return;
    instance *inst;
    {
        const std::lock_guard guard(instances.lock);
        inst = find_instance(*info);
        if (inst != nullptr)
            inst->initialized = false;
    }
    auto *const remove_provider =
        registry(*info).find<registration_function>("dat_registry_remove_provider");
    if (inst != nullptr && remove_provider != nullptr)
        remove_provider(inst->table, info);
}

/// OFED's registry checks that this symbol exists, and does not call it.
[[gnu::visibility("default")]] DAT_RETURN dapl_extensions(DAT_HANDLE, DAT_EXTENDED_OP, va_list);
DAT_RETURN dapl_extensions(DAT_HANDLE handle, DAT_EXTENDED_OP operation, va_list args) {
    return extensions::extended_op(handle, operation, args);
}
}
