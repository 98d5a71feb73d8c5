//===- VerifyLosses.cpp - Rule p4: what a mode gives of its losses -------------------------===//
#include "runtime/program/verify/VerifierInternal.h"

namespace omnibal::rt {
namespace {

/// What a loss of pairs of answers gives beside the loss, it gives on one stage, and no other loss
/// gives it.
Status checkRewards(const Program &p, const std::string &modeName) {
  const std::string where = "mode " + modeName;
  for (const char *name : {chosenRewardResult, rejectedRewardResult, preferredResult}) {
    int makers = 0;
    for (const Stage &stage : p.stageList)
      for (const BatchValue &v : stage.modes.at(modeName).results)
        if (v.name == name) {
          ++makers;
          if (v.dtype != DType::F32 || v.shape != std::vector<Extent>{{0, 0, 1}})
            return broken("p4", where, "the result \"" + v.name + "\" must be f32 [N]");
        }
    if (makers != p.info.learnsFromPairs())
      return broken("p4", where,
                    std::to_string(makers) + " stages give the result \"" + name +
                        "\", but preference_beta in the manifest is " +
                        std::to_string(p.info.preferenceBeta));
  }
  return Status::ok();
}

} // namespace

Status verifyLosses(const Program &p, const std::string &modeName) {
  const std::string where = "mode " + modeName;
  int makers = 0, routers = 0;
  for (const Stage &stage : p.stageList)
    for (const BatchValue &v : stage.modes.at(modeName).results)
      if (v.name == "loss") {
        ++makers;
        if (v.dtype != DType::F32 || v.shape != std::vector<Extent>{{0, 0, 1}})
          return broken("p4", where, "the result \"loss\" must be f32 [N]");
      } else if (v.name == routerLossResult) {
        ++routers;
        if (v.dtype != DType::F32 || !v.shape.empty())
          return broken("p4", where, "the result \"router_loss\" must be one f32 number");
      }
  if (routers != (p.info.routerLossCoefficient != 0))
    return broken("p4", where,
                  std::to_string(routers) +
                      " stages give the result \"router_loss\", but its "
                      "coefficient in the manifest is " +
                      std::to_string(p.info.routerLossCoefficient));
  OMNIBAL_RETURN_IF_ERROR(checkRewards(p, modeName));
  return makers == 1 ? Status::ok()
                     : broken("p4", where,
                              std::to_string(makers) + " stages give the result \"loss\", not one");
}

} // namespace omnibal::rt
