//===- ReplacedFile.h - Small files that are written again and again ---------------------===//
#ifndef RUNTIME_SUPPORT_REPLACEDFILE_H
#define RUNTIME_SUPPORT_REPLACEDFILE_H

#include "runtime/support/Status.h"
#include <string>
#include <string_view>

namespace omnibal::rt {

/// Makes `text` the whole of `path`: a reader sees what was there before, or all of it. Nothing is
/// flushed to the disk (writeFileAtomically() does that), as such a file counts while its writer
/// lives.
Status replaceFile(const std::string &path, std::string_view text);

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_REPLACEDFILE_H
