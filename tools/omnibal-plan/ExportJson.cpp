#include "tools/omnibal-plan/Export.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace omnibal::plan {

using namespace planner;
namespace json = llvm::json;

Exported exportJson(const Problem &problem, const Plan &plan, const PlanSearch &search) {
  Exported result;
  llvm::raw_string_ostream stream(result.text);
  json::OStream out(stream, 1);
  out.object([&] {
    out.attribute("schema", "omnibal.plan-export/1");
    out.attribute("microbatches", problem.microbatches);
    out.attribute("data_parallel", problem.cluster.dataParallel);
    out.attributeArray("chunks", [&] {
      for (size_t c = 0; c < plan.chunkRank.size(); ++c)
        out.object([&] {
          out.attribute("rank", plan.chunkRank[c]);
          out.attributeArray("layers", [&] {
            for (int64_t l = plan.cuts[c]; l < plan.cuts[c + 1]; ++l)
              out.value(json::Object{{"name", problem.layers[l].name},
                                     {"kind", problem.layers[l].kind},
                                     {"remat", plan.remat[l]}});
          });
        });
    });
    out.attributeBegin("plan");
    out.rawValue(llvm::StringRef(writePlan(plan, search)).rtrim());
    out.attributeEnd();
  });
  stream << "\n";
  return result;
}

} // namespace omnibal::plan
