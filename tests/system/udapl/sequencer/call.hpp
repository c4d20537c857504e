// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// One call of a DAT function: notes its arguments, and checks its result against its rule and
// against what is known of its handles.
//
//     call query(worker, rules::pz_query);
//     query.check_result(dat_pz_query(query.use_handle(pz, "pz"), DAT_PZ_FIELD_ALL, &param));

#pragma once

#include "worker.hpp"

#include <array>

namespace sequencer {

class call {
  public:
    call(worker &caller, const call_rule &called);
    call(const call &) = delete;
    call &operator=(const call &) = delete;

    /// Each of the use_ functions notes a handle that the call gets as an argument and that must be
    /// valid, with what is known of its object before the call, and returns it. DAT checks the
    /// first one before all other arguments.
    DAT_HANDLE use_handle(const object_ref &ref, const char *name);
    /// Of an object of this IA: one of another IA is invalid.
    DAT_HANDLE use_handle(const object_ref &ref, const object *ia, const char *name);
    /// Of an EVD of this IA with one of these flags.
    DAT_HANDLE use_evd(const object_ref &ref, const object *ia, DAT_EVD_FLAGS flags,
                       const char *name);
    /// Of a handle that may be DAT_HANDLE_NULL.
    DAT_HANDLE use_optional(const object_ref &ref, const object *ia, const char *name);
    /// Of an EVD that may be DAT_HANDLE_NULL; then an attribute may be invalid, as one needs the
    /// EVD.
    DAT_HANDLE use_optional_evd(const object_ref &ref, const object *ia, DAT_EVD_FLAGS flags,
                                const char *name);
    /// Notes another argument, and returns it.
    template <class type>
    type arg(const char *name, type value) {
        caller_.ring.add_arg(name, value);
        return value;
    }

    /// An argument is invalid: the call must not succeed.
    void expect_invalid_parameter();
    /// A handle may be invalid for another reason than those of use_handle().
    void allow_invalid_handle() { allows_invalid_handle_ = true; }
    /// The call may return results of these types, too.
    void allow(std::uint32_t type_bits) { legal_types_ |= type_bits; }
    /// Only these, instead of those of the rule.
    void allow_only(std::uint32_t type_bits) { legal_types_ = type_bits; }
    /// The call frees this object, if it succeeds. After use_handle() of its handle.
    void frees(object *obj);
    /// The call begins a connection attempt of this EP, if it succeeds.
    void begins_attempt(object *ep);
    /// The call makes an object of this type, and frees it if it fails: that counts as a free,
    /// after which handles may be reused.
    void creates(DAT_HANDLE_TYPE type) { caller_.table.count_free(type); }

    /// The function has returned this result: checks it, and notes what it changed. Fails, or
    /// returns the result.
    DAT_RETURN check_result(DAT_RETURN result);
    bool has_succeeded() const { return succeeded_; }
    /// Whether a handle was or became invalid during the call, or may have.
    bool has_possibly_invalid_handle() const;

  private:
    struct used_handle {
        object *obj;
        unsigned free_attempts,
            ia_free_attempts; ///< frees of the object and its IA begun before the call
        bool was_being_freed; ///< a free of the object or its IA was in progress before the call
        bool is_certainly_invalid; ///< the call must refuse it
    };
    /// The object was freed, or a free of it or its IA was in progress at some time of the call.
    bool is_possibly_invalid(const used_handle &used) const;
    void check(DAT_RETURN result) const;

    worker &caller_;
    const call_rule &rule_;
    std::uint32_t legal_types_; ///< type bits of results that are legal besides DAT_INVALID_HANDLE
    std::array<used_handle, 10> handles_;
    std::size_t num_handles_ = 0;
    std::array<object *, 2> objects_to_free_ = {};
    std::size_t num_objects_to_free_ = 0;
    object *connecting_ep_ = nullptr;
    bool allows_invalid_handle_ = false, has_invalid_parameter_ = false, succeeded_ = false;
    bool used_busy_object_ = false; ///< another call used one of the objects when this one began
};

} // namespace sequencer
