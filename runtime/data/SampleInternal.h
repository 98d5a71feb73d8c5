//===- SampleInternal.h - What is kept of KEY.json ---------------------------------------===//
#ifndef RUNTIME_DATA_SAMPLEINTERNAL_H
#define RUNTIME_DATA_SAMPLEINTERNAL_H

#include "runtime/data/Dataset.h"
#include "runtime/support/Json.h"
#include <optional>

namespace omnibal::rt {

class SampleReader;

/// The sample that was read, or what is wrong with it. `where` names shard and member in errors.
Result<Sample> sampleOf(SampleReader &reader, const std::string &key, const std::string &where,
                        const SampleNeeds &needs);

} // namespace omnibal::rt
#endif // RUNTIME_DATA_SAMPLEINTERNAL_H
