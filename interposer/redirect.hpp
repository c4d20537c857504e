// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

namespace coherdma::interposer {

/// Leads the calls of a program that was not started with the interposer to it: of libibverbs'
/// functions, and of librdmacm's if that is loaded. Also those of libraries that are loaded later,
/// and functions that are looked up later, by dlsym(); not those that the program has looked up
/// before. Returns 0, also if the program was started with the interposer, or an errno.
int redirect_program() noexcept;

} // namespace coherdma::interposer
