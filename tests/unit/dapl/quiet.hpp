// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What hardware and a kernel do is not seen by the thread sanitizer. So it must not see what the
// played ones do, either: their own lock would put every two calls of the provider into an order,
// and hide from it what the provider forgot. It is told of those orders alone that real ones keep.
#pragma once

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

namespace played {

/// What a thread does while it has one is not looked at.
class quiet {
  public:
    quiet() noexcept {
#ifdef COHERDMA_TSAN
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
        AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
#endif
    }
    ~quiet() {
#ifdef COHERDMA_TSAN
        AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
    }
    quiet(const quiet &) = delete;
    quiet &operator=(const quiet &) = delete;
};

/// What a thread has done before it gives this is seen by who takes the same. Not while quiet.
inline void give_order([[maybe_unused]] const void *about) noexcept {
#ifdef COHERDMA_TSAN
    __tsan_release(const_cast<void *>(about));
#endif
}
inline void take_order([[maybe_unused]] const void *about) noexcept {
#ifdef COHERDMA_TSAN
    __tsan_acquire(const_cast<void *>(about));
#endif
}

} // namespace played
