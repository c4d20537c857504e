// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "observers.hpp"

#include "objects.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <new>
#include <pthread.h>
#include <string>
#include <string_view>

namespace coherdma::interposer {
namespace {

std::vector<observer *> *observers = nullptr;

/// Adds the module's observer. A module that cannot be loaded ends the program: it was asked for,
/// and a run without it would be taken for one that it has seen.
void load_observer(const std::string &path) {
    void *const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
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
    if (observer *const loaded = make_observer())
        observers->push_back(loaded);
}

/// In the child of fork(): its objects are another generation. The observers begin afresh.
void reset_after_fork() {
    current_generation.fetch_add(1, std::memory_order_relaxed);
    tables().contexts.reset_after_fork();
    tables().cqs.reset_after_fork();
    tables().srqs.reset_after_fork();
    tables().qps.reset_after_fork();
    tables().others.reset_after_fork();
    request_queue::reset_after_fork();
    const unobserved_scope scope;
    for (observer *const loaded : *observers)
        loaded->on_fork();
}

const std::vector<observer *> &load_observers() noexcept try {
    observers = new std::vector<observer *>;
    const unobserved_scope scope;
    // The environment of a setuid program is another user's.
    const char *const setting = secure_getenv("COHERDMA_OBSERVERS");
    std::string_view paths = setting != nullptr ? setting : "";
    while (!paths.empty()) {
        const std::string_view path = paths.substr(0, paths.find(':'));
        if (!path.empty())
            load_observer(std::string(path));
        paths.remove_prefix(std::min(path.size() + 1, paths.size()));
    }
    if (!observers->empty())
        pthread_atfork(nullptr, nullptr, reset_after_fork);
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
