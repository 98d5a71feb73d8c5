//===- TextLines.h - Files of which every line is a record -----------------------------------===//
#ifndef RUNTIME_SUPPORT_TEXTLINES_H
#define RUNTIME_SUPPORT_TEXTLINES_H

#include "runtime/support/Status.h"
#include <string>
#include <vector>

namespace omnibal::rt {

/// A line that holds something, with its place ("loads.jsonl:3") for messages.
struct TextLine {
  std::string text, where;
};

/// The lines of a file that are not blank. An error where there is none: `record` says what each is
/// expected to hold ("a step").
Result<std::vector<TextLine>> readTextLines(const std::string &path, const std::string &record);

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_TEXTLINES_H
