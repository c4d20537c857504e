// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where the command runs: on this machine if it has a soft device or the user says so, else in
// softrdma's lab.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace tools::emulate {

/// Not possible on this machine; what() says what to type next.
struct not_available_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// An RDMA device of any driver.
bool has_device();
/// One of rxe or siw.
bool has_soft_device();

/// The path of softrdma: COHERDMA_SOFTRDMA, else beside this program, else in PATH. Throws
/// not_available_error.
std::string find_softrdma();

/// The value of RDMAV_DRIVERS that puts what attaches the emulation before the user's. Throws
/// not_available_error if it does not exist.
std::string make_drivers_variable();

/// A temporary folder, removed with its content by the destructor.
class temp_folder {
  public:
    temp_folder();
    ~temp_folder();
    temp_folder(const temp_folder &) = delete;
    temp_folder &operator=(const temp_folder &) = delete;
    [[nodiscard]] const std::string &path() const noexcept { return path_; }

  private:
    std::string path_;
};

} // namespace tools::emulate
