// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Which calls of the played libraries, and of the C library, fail, and with what. Every call that
// could fail is counted, so a test can have each of them fail in its turn.
#pragma once

#include <map>
#include <string>

namespace played {

class faults {
  public:
    /// Of this name, the nth from now on, counted from 1.
    void fail(const std::string &call, int error, unsigned nth = 1);
    /// Of this name all, from now on.
    void fail_always(const std::string &call, int error);
    /// Of all, the nth from now on; 0: none, but they are counted.
    void fail_nth(unsigned nth, int error);
    /// None any more; nothing is counted.
    void stop();

    /// Calls since it was told last which fail.
    unsigned count() const { return all_; }
    unsigned count(const std::string &call) const;
    /// The one that failed last; "" if none has.
    const std::string &failed() const { return failed_; }

    /// For a call: 0 or the error it has to have.
    int now(const char *call);

  private:
    struct wish {
        unsigned nth;
        int error;
        bool always;
    };
    void start();

    bool counting_ = false;
    std::map<std::string, wish> named_;
    std::map<std::string, unsigned> counts_;
    unsigned all_ = 0, nth_ = 0;
    int error_ = 0;
    std::string failed_;
};

} // namespace played
