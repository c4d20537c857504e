// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "threads.hpp"

#include <pthread.h>

namespace coherdma::check {

stack_bounds bounds_of_stack() noexcept {
    // Once per thread: that of the first thread is read from a file.
    [[gnu::tls_model("initial-exec")]] static thread_local stack_bounds bounds;
    if (bounds.end == 0) {
        pthread_attr_t attr;
        void *addr = nullptr;
        std::size_t size = 0;
        if (pthread_getattr_np(pthread_self(), &attr) != 0)
            return {};
        pthread_attr_getstack(&attr, &addr, &size);
        pthread_attr_destroy(&attr);
        bounds.begin = reinterpret_cast<std::uintptr_t>(addr);
        bounds.end = bounds.begin + size;
    }
    return bounds;
}

} // namespace coherdma::check
