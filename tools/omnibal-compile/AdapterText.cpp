#include "tools/omnibal-compile/AdapterText.h"
#include "runtime/program/Printer.h"
#include <cstdio>

namespace omnibal::compile {
namespace {

/// "1,234,567".
std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

} // namespace

std::string adapterText(const rt::Program &program) {
  const rt::Adapters &adapters = program.adapters;
  if (adapters.empty())
    return "";
  int64_t all = 0, trained = 0;
  for (const rt::Stage *stage : program.firstParts())
    for (const rt::Parameter &q : stage->parameters)
      if (q.counted) {
        all += q.wholeElements();
        trained += q.trainable ? q.wholeElements() : 0;
      }
  char share[32];
  std::snprintf(share, sizeof share, "%.3g %%",
                100 * static_cast<double>(trained) / static_cast<double>(all));
  return "\nadapters: " + rt::describe(adapters) + "; " + grouped(trained) + " of " + grouped(all) +
         " parameters train (" + share + ")\n";
}

std::string quantizedText(const rt::Program &program) {
  int64_t weights = 0, numbers = 0, bytes = 0;
  const char *kind = "";
  for (const rt::Stage *stage : program.firstParts())
    for (const rt::Parameter &q : stage->parameters)
      if (q.counted && q.quantization != rt::Quantization::None) {
        ++weights;
        numbers += q.wholeElements();
        bytes += q.dataBytes();
        kind = nameOf(q.quantization);
      }
  if (weights == 0)
    return "";
  return "\nquantized: " + grouped(weights) + " frozen weights with " + grouped(numbers) +
         " numbers in " + kind + " take " + grouped(bytes) + " bytes, and as float32 " +
         grouped(4 * numbers) + "\n";
}

} // namespace omnibal::compile
