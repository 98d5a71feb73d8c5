//===- JsonText.h - JSON from people, with exact numbers ------------------------------------===//
#ifndef PASSES_PLANNER_JSONTEXT_H
#define PASSES_PLANNER_JSONTEXT_H

#include "passes/planner/Decimal.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace omnibal::planner {

/// Parses `text` after refusing what the parser would take silently or die of: an empty text, a key
/// twice in one object, nesting deeper than 64, more than 250,000 objects or 5,000,000 lists. A
/// byte order mark is skipped. Numbers with a fraction or an exponent become integers where their
/// value is one (25e9), else text that decimalOf reads exactly. Messages begin with `where`.
llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text, llvm::StringRef where);

/// The same from a file; "cannot be read" where it cannot.
llvm::Expected<llvm::json::Value> readJson(llvm::StringRef path);
/// With the same checks, numbers as the parser reads them: for readers that know nothing of exact
/// ones.
llvm::Expected<llvm::json::Value> readPlainJson(llvm::StringRef path);

/// A number of at least 0 as written; none if the value is none, or has more than 18 digits.
std::optional<Decimal> decimalOf(const llvm::json::Value &value);

/// A number as the nearest double, sign allowed.
std::optional<double> doubleOf(const llvm::json::Value &value);

} // namespace omnibal::planner
#endif // PASSES_PLANNER_JSONTEXT_H
