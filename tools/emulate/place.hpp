// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where the command is run: here, if there is a device that can be played, else in softrdma's lab.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace tools::emulate {

/// Nothing is wrong, but this machine cannot do it; in words, with what to type next.
struct cannot_here : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// A device that the emulation can play, as rxe0; "" if there is none.
std::string soft_device();

/// The program: the file COHERDMA_SOFTRDMA names, else the one beside this one, else that of PATH.
/// Throws cannot_here.
std::string softrdma();

/// What RDMAV_DRIVERS is to be, so that our provider serves: it is asked first, and the user's
/// after it. Throws cannot_here if the provider is not there.
std::string drivers();

/// A folder of this process's own, gone with it and what is in it.
class folder {
  public:
    folder();
    ~folder();
    folder(const folder &) = delete;
    folder &operator=(const folder &) = delete;
    [[nodiscard]] const std::string &path() const noexcept { return path_; }

  private:
    std::string path_;
};

} // namespace tools::emulate
