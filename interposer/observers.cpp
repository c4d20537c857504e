// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "observers.hpp"

#include "objects.hpp"
#include "redirect.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <pthread.h>
#include <set>
#include <string>
#include <string_view>

namespace coherdma::interposer {
namespace {

std::vector<observer *> *observers = nullptr;
std::set<void *> *modules = nullptr; ///< handles of those that were asked for an observer

void prepare_fork() {
    const unobserved_scope scope;
    for (observer *const loaded : *observers)
        loaded->before_fork();
}

/// In the child of fork(): its objects are another generation. The observers begin afresh.
void reset_after_fork() {
    current_generation.fetch_add(1, std::memory_order_relaxed);
    tables().contexts.reset_after_fork();
    tables().cqs.reset_after_fork();
    tables().srqs.reset_after_fork();
    tables().qps.reset_after_fork();
    tables().others.reset_after_fork();
    new (&tables().adoption_mutex) std::mutex;
    request_queue::reset_after_fork();
    const unobserved_scope scope;
    for (observer *const loaded : *observers)
        loaded->on_fork();
}

/// Adds the module's observer. A module that cannot be loaded ends the program: it was asked for,
/// and a run without it would be taken for one that it has seen.
void load_observer(const std::string &path) {
    const unobserved_scope scope;
    // Two paths may name one module, or two copies of it: it has one observer.
    const std::string file_name = path.substr(path.rfind('/') + 1);
    void *module = dlopen(file_name.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    if (module == nullptr)
        module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (module != nullptr && !modules->insert(module).second)
        return;
    auto *const make_observer =
        module != nullptr
            ? reinterpret_cast<make_observer_function *>(dlsym(module, MAKE_OBSERVER_NAME))
            : nullptr;
    if (make_observer == nullptr) {
        const char *const reason = dlerror();
        std::fprintf(stderr, "coherdma: cannot observe this program: %s: %s\n", path.c_str(),
                     reason != nullptr ? reason : "it is no observer");
        std::_Exit(EXIT_FAILURE);
    }
    observer *const loaded = make_observer();
    if (loaded == nullptr)
        return;
    if (observers->empty())
        pthread_atfork(prepare_fork, nullptr, reset_after_fork);
    if (loaded->wants_calls())
        are_calls_wanted.store(true, std::memory_order_relaxed);
    observers->push_back(loaded);
}

std::vector<observer *> &load_observers() noexcept try {
    observers = new std::vector<observer *>;
    modules = new std::set<void *>;
    // The environment of a setuid program is another user's.
    const char *const setting = secure_getenv("COHERDMA_OBSERVERS");
    std::string_view paths = setting != nullptr ? setting : "";
    while (!paths.empty()) {
        const std::string_view path = paths.substr(0, paths.find(':'));
        if (!path.empty())
            load_observer(std::string(path));
        paths.remove_prefix(std::min(path.size() + 1, paths.size()));
    }
    return *observers;
} catch (const std::bad_alloc &) {
    std::fputs("coherdma: cannot observe this program: out of memory\n", stderr);
    std::_Exit(EXIT_FAILURE);
}

} // namespace

const std::vector<observer *> &loaded_observers() noexcept {
    static const std::vector<observer *> &loaded = load_observers();
    return loaded;
}

} // namespace coherdma::interposer

using namespace coherdma::interposer;

/// What the plugin calls (plugin.cpp), while libibverbs lists the devices for the first time: none
/// is open yet. module: of an observer; nullptr: only those of COHERDMA_OBSERVERS. What fails ends
/// the program.
extern "C" void coherdma_interposer_attach(const char *module) try {
    static_cast<void>(loaded_observers());
    if (module != nullptr)
        load_observer(module);
    if (observers->empty())
        return;
    if (const int error = redirect_program()) {
        std::fprintf(stderr,
                     "coherdma: cannot observe this program: its calls of libibverbs "
                     "cannot be redirected: %s\n",
                     std::strerror(error));
        std::_Exit(EXIT_FAILURE);
    }
} catch (const std::bad_alloc &) {
    std::fputs("coherdma: cannot observe this program: out of memory\n", stderr);
    std::_Exit(EXIT_FAILURE);
}
