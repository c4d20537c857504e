// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

namespace coherdma::registry {

/// Of everything that changes when providers and IAs come and go; what is done with IAs takes no
/// lock. It is held over the loading of a library, which may call back: hence recursive. Who forks
/// waits for it, so that the child finds everything in order and nobody holding it.
class locked {
  public:
    locked() noexcept;
    ~locked();
    locked(const locked &) = delete;
    locked &operator=(const locked &) = delete;
};

} // namespace coherdma::registry
