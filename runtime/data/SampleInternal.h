//===- SampleInternal.h - Parsing of KEY.json --------------------------------------------===//
#ifndef RUNTIME_DATA_SAMPLEINTERNAL_H
#define RUNTIME_DATA_SAMPLEINTERNAL_H

#include "runtime/core/Json.h"
#include "runtime/data/Dataset.h"

namespace omnibal::rt {

/// `where` names shard and member in errors.
Result<Sample> parseSample(std::string_view text, const std::string &key, const std::string &where);

} // namespace omnibal::rt
#endif // RUNTIME_DATA_SAMPLEINTERNAL_H
