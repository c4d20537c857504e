// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// ThreadSanitizer does not see hardware and the kernel, so it must not see the fake ones: their
// lock would order any two calls of the provider and hide its data races. TSan is given only the
// orderings that real devices guarantee.
#pragma once

#include <cstdint>

#ifdef COHERDMA_TSAN
extern "C" {
void AnnotateIgnoreReadsBegin(const char *, int);
void AnnotateIgnoreReadsEnd(const char *, int);
void AnnotateIgnoreWritesBegin(const char *, int);
void AnnotateIgnoreWritesEnd(const char *, int);
void AnnotateIgnoreSyncBegin(const char *, int);
void AnnotateIgnoreSyncEnd(const char *, int);
void __tsan_acquire(void *);
void __tsan_release(void *);
}
#endif

namespace fake {

/// During its lifetime TSan ignores this thread.
class tsan_ignore {
  public:
    tsan_ignore() noexcept {
#ifdef COHERDMA_TSAN
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
        AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
#endif
    }
    ~tsan_ignore() {
#ifdef COHERDMA_TSAN
        AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
    }
    tsan_ignore(const tsan_ignore &) = delete;
    tsan_ignore &operator=(const tsan_ignore &) = delete;
};

/// tsan_release() happens before tsan_acquire() of the same address. Not within tsan_ignore.
inline void tsan_release([[maybe_unused]] const void *addr) noexcept {
#ifdef COHERDMA_TSAN
    __tsan_release(const_cast<void *>(addr));
#endif
}
inline void tsan_acquire([[maybe_unused]] const void *addr) noexcept {
#ifdef COHERDMA_TSAN
    __tsan_acquire(const_cast<void *>(addr));
#endif
}

/// The same for a request and its completion. Their wr_id is an address, with the Provider's flag
/// in bit 63.
inline void tsan_release_request(std::uint64_t wr_id) noexcept {
    tsan_release(reinterpret_cast<const void *>(wr_id << 1 >> 1));
}
inline void tsan_acquire_request(std::uint64_t wr_id) noexcept {
    tsan_acquire(reinterpret_cast<const void *>(wr_id << 1 >> 1));
}

} // namespace fake
