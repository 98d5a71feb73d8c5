#include "runtime/support/Formats.h"
#include "runtime/support/JsonWriter.h"
#include "tools/omnibal-plan/Export.h"

namespace omnibal::plan {

using namespace planner;

Exported exportJson(const Problem &problem, const Plan &plan, const PlanSearch &search) {
  rt::JsonWriter out(1);
  out.object([&] {
    out.attribute("schema", rt::formats::planExport);
    out.attribute("microbatches", problem.microbatches);
    out.attribute("data_parallel", problem.cluster.dataParallel);
    out.attribute("model_parallel", problem.cluster.parts);
    out.attribute("zero", problem.cluster.zero);
    out.attributeArray("chunks", [&] {
      for (size_t c = 0; c < plan.chunkStage.size(); ++c)
        out.object([&] {
          out.attribute("rank", plan.chunkStage[c]);
          out.attributeArray("layers", [&] {
            for (int64_t l = plan.cuts[c]; l < plan.cuts[c + 1]; ++l)
              out.object([&] {
                out.attribute("kind", problem.layers[l].kind);
                out.attribute("name", problem.layers[l].name);
                out.attribute("remat", plan.remat[l]);
              });
          });
        });
    });
    std::string text = writePlan(plan, search);
    text.pop_back(); // the end of its line
    out.rawAttribute("plan", text);
  });
  Exported result;
  result.text = out.take() + "\n";
  return result;
}

} // namespace omnibal::plan
