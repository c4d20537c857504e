// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "error.hpp"

#include <coherdma/coherdma.h>
#include <cstdarg>
#include <cstdio>

namespace {

thread_local char error_text[512] = "";

} // namespace

int coherdma::api::fail(int error, const char *format, ...) noexcept {
    std::va_list args;
    va_start(args, format);
    std::vsnprintf(error_text, sizeof error_text, format, args);
    va_end(args);
    return error;
}

const char *coherdma_error(void) {
    return error_text;
}

const char *coherdma_coherency_str(uint32_t coherency) {
    switch (coherency) {
    case COHERDMA_COHERENT:
        return "coherent";
    case COHERDMA_NON_COHERENT:
        return "non-coherent";
    case COHERDMA_BOUNCED:
        return "bounced";
    default:
        return "unknown";
    }
}

const char *coherdma_strength_str(uint32_t strength) {
    switch (strength) {
    case COHERDMA_STRENGTH_ASSUMED:
        return "assumed";
    case COHERDMA_STRENGTH_FIRMWARE:
        return "firmware";
    case COHERDMA_STRENGTH_KERNEL:
        return "kernel";
    case COHERDMA_STRENGTH_MEASURED:
        return "measured";
    default:
        return "none";
    }
}
