// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Ownership and errors for test programs that call verbs and librdmacm.

#pragma once

#include <cerrno>
#include <cstring>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>

namespace verbs_test {

using failure = std::runtime_error;

template <class... Parts>
std::string concat(const Parts &...parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

template <auto Release>
struct releaser {
    template <class T>
    void operator()(T *object) const noexcept {
        Release(object);
    }
};
template <class T, auto Release>
using unique_handle = std::unique_ptr<T, releaser<Release>>;

// The verbs and CM calls return 0, or -1 with errno set, or (ibv_post_*) the error itself.
inline void check(int result, const char *operation) {
    if (result != 0) {
        const int error = result > 0 ? result : errno;
        throw failure(concat(operation, ": ", std::strerror(error)));
    }
}
template <class Owned>
Owned check(Owned object, const char *operation) {
    if (!object)
        check(-1, operation);
    return object;
}

} // namespace verbs_test
