// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

namespace coherdma::api {

/// Sets the text that coherdma_error() returns in this thread, and returns the errno value `error`.
[[gnu::cold, gnu::format(printf, 2, 3)]] int fail(int error, const char *format, ...) noexcept;

} // namespace coherdma::api
