//===- CallReader.h - Checks a call's operand names and attributes ------------------===//
#ifndef RUNTIME_DEVICE_CALLREADER_H
#define RUNTIME_DEVICE_CALLREADER_H

#include "runtime/device/Kernel.h"
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Reads what a kernel expects of its call. The first mistake is kept; finish() returns it, or that
/// of a name nobody asked for.
class CallReader {
public:
  explicit CallReader(const BoundCall &call) : call(call) {}

  /// Position of a required operand; 0 (and an error) if it is missing.
  int operand(const std::string &name);
  /// Position of an operand, or -1.
  int optionalOperand(const std::string &name);
  /// Positions of operands name0, name1, ... (a variadic operand), or of the single operand `name`.
  std::vector<int> operands(const std::string &name);
  /// Positions of two required operands, and of further pairs with numbers from 1 behind their
  /// names.
  std::vector<std::pair<int, int>> operandPairs(const std::string &first,
                                                const std::string &second);

  bool has(const std::string &attribute) const;
  bool flag(const std::string &name, bool byDefault);
  double number(const std::string &name, double byDefault);
  int64_t integer(const std::string &name, int64_t byDefault);
  int64_t requiredInteger(const std::string &name);
  std::vector<int64_t> integers(const std::string &name, std::vector<int64_t> byDefault = {});
  /// Position of the attribute's value in `choices`; the first one is the default.
  int choice(const std::string &name, std::initializer_list<const char *> choices);
  std::string text(const std::string &name, const std::string &byDefault);
  /// An affine size: a plain integer or a list of Extent's three or five numbers.
  Extent extent(const std::string &name, Extent byDefault);
  std::vector<Extent> extents(const std::string &name);

  void fail(const std::string &message);
  Status finish();

private:
  const nlohmann::json *find(const std::string &name);
  Result<Extent> parseExtent(const nlohmann::json &value, const std::string &name);

  const BoundCall &call;
  std::set<std::string> knownOperands, knownAttributes;
  Status error;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_CALLREADER_H
