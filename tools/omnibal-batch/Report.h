//===- Report.h - A page with pictures of the balance ---------------------------------------===//
#ifndef TOOLS_OMNIBAL_BATCH_REPORT_H
#define TOOLS_OMNIBAL_BATCH_REPORT_H

#include "runtime/batching/io/BatchesFolder.h"

namespace omnibal::rt {

/// Self-contained HTML: what ranks and steps carry with `batches` and with the random micro-batches
/// that the record's `before` is about.
std::string htmlReport(const SampleLengths &lengths, const Batches &batches,
                       const BatchesRecord &record);

} // namespace omnibal::rt
#endif // TOOLS_OMNIBAL_BATCH_REPORT_H
