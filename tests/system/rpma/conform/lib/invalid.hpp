// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls with invalid arguments: they return RPMA_E_INVAL and leave the outputs as they were.

#pragma once

#include "check.hpp"

#include <cstddef>
#include <cstring>

namespace conform {

/// No object, but an address that may be passed where a call fails before it looks at the object.
/// Outputs have it before a call, too, since no call returns it.
template <class T>
T *fake_object() {
    alignas(std::max_align_t) static char bytes[4096];
    return reinterpret_cast<T *>(bytes);
}

/// An output of a call that fails.
template <class T>
class unchanged {
  public:
    unchanged() { std::memset(static_cast<void *>(&value_), 0x5a, sizeof value_); }
    T *operator&() { return &value_; } // NOLINT(google-runtime-operator)
    void expect(source_location loc = current_location()) const {
        T before;
        std::memset(static_cast<void *>(&before), 0x5a, sizeof before);
        expect_true(std::memcmp(&value_, &before, sizeof before) == 0, "the output is set", loc);
    }

  private:
    T value_;
};

/// call(output) fails and does not set the output.
template <class Output, class Call>
void expect_fails(const Call &call, int expected, source_location loc = current_location()) {
    unchanged<Output> output;
    expect_return(call(&output), expected, loc);
    output.expect(loc);
}

/// A function that writes a property of an object.
template <class Object, class Output>
void expect_invalid_get(int (*get)(const Object *, Output *),
                        source_location loc = current_location()) {
    expect_fails<Output>([&](Output *output) { return get(nullptr, output); }, RPMA_E_INVAL, loc);
    expect_return(get(fake_object<Object>(), nullptr), RPMA_E_INVAL, loc);
    expect_return(get(nullptr, nullptr), RPMA_E_INVAL, loc);
}

/// A function that deletes an object and sets the pointer to NULL accepts a NULL object.
template <class Object>
void expect_invalid_delete(int (*destroy)(Object **), source_location loc = current_location()) {
    expect_return(destroy(nullptr), RPMA_E_INVAL, loc);
    Object *object = nullptr;
    expect_return(destroy(&object), 0, loc);
    expect_true(object == nullptr, "the pointer is not NULL", loc);
}

} // namespace conform
