//===- VerifierInternal.h - What the parts of the verifier share -------------------------===//
#ifndef RUNTIME_PROGRAM_VERIFY_VERIFIERINTERNAL_H
#define RUNTIME_PROGRAM_VERIFY_VERIFIERINTERNAL_H

#include "runtime/program/Names.h"
#include "runtime/program/Program.h"
#include "runtime/support/Status.h"
#include <string>
#include <string_view>

namespace omnibal::rt {

inline Status broken(const char *rule, const std::string &where, const std::string &what) {
  return {Code::DataLoss, std::string(rule) + ": " + where + ": " + what};
}

/// [offset, offset + bytes) lies in [0, size).
constexpr bool inside(int64_t offset, int64_t bytes, int64_t size) {
  return offset >= 0 && bytes >= 0 && size >= 0 && bytes <= size && offset <= size - bytes;
}

/// Where a bucket's parameters are trainable and in no other one (p3), and p18, but for where
/// shares lie.
Status verifyBuckets(const Program &program, const Stage &stage, const std::string &where);

/// Whether Muon may orthogonalize updates of the parameter.
bool canOrthogonalize(const Program &program, const Parameter &parameter);

/// p14, after p4: what plans of single steps place.
Status verifyStepRegions(const Program &program, const Stage &stage, const Mode &mode,
                         const std::string &where);

/// Of p4, in mode train or evaluate: one loss a token, made on one stage, one of the routers where
/// it counts, and what a loss of pairs gives beside.
Status verifyLosses(const Program &program, const std::string &modeName);

/// p16, after p1.
Status verifyModeList(const Program &program);
/// p15, after p4.
Status verifySharedParts(const Program &program);

/// p19.
Status verifyAdapters(const Program &program);

/// p20: the parts of each stage fit together.
Status verifyOwnParts(const Program &program);

/// p12.
Status verifyPictures(const Program &program);

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_VERIFY_VERIFIERINTERNAL_H
