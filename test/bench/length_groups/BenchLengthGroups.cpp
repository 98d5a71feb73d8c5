//===- BenchLengthGroups.cpp - Length groups against the bound and the published baseline ---===//
//
// bench_length_groups CANDIDATES.json [SAMPLES] [MAX_GROUPS] [plan|hbp] [SEED]: plans an epoch of
// text lengths (TextLengths.h; default 939,343 samples, 3 groups) and prints its time, the bounds,
// imbalance, statistics of steps, processor time and peak memory of the process.
// bench_length_groups --lengths SAMPLES [SEED] prints the lengths as a table.
//
//===----------------------------------------------------------------------------------------===//
#include "runtime/batching/lengths/EpochPlan.h"
#include "runtime/batching/lengths/GroupsFile.h"
#include "test/bench/length_groups/TextLengths.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/resource.h>

using namespace omnibal::rt;

namespace {

int printLengths(int64_t count, uint64_t seed) {
  SampleLengths lengths = test::textLengths(count, seed);
  std::printf("vit_num,token_num\n");
  for (int32_t tokens : lengths.tokens)
    std::printf("0,%d\n", tokens);
  return 0;
}

void print(const EpochPlan &plan, double seconds) {
  const EpochFacts &f = plan.facts;
  for (size_t m = 0; m < f.modes.size(); ++m)
    std::printf(
        "%-8s %10lld samples %9lld filled %8lld rows %7lld steps %8.1f s  cost %.5f abr %.3f\n",
        plan.groups.groups[m].name.c_str(), static_cast<long long>(f.modes[m].samples),
        static_cast<long long>(plan.epoch.filled[m]), static_cast<long long>(f.modes[m].rows),
        static_cast<long long>(f.modes[m].steps), f.modes[m].ns / 1e9, f.modes[m].distRatioCost,
        f.modes[m].abr);
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  std::printf("E %.2f s  LB %.2f s  LB(C) %.2f s  E/LB(C) %.4f  imbalance of time %.5f  ABR %.3f  "
              "CR %.3f  variance "
              "%.2f %.2f  seconds %.2f  MB %.0f\n",
              f.epochNs / 1e9, plan.boundNs / 1e9, plan.boundAllNs / 1e9,
              f.epochNs / plan.boundAllNs, f.all.distRatioCost, f.all.abr, f.cr, f.stepVariance8,
              f.stepVariance32, seconds, static_cast<double>(usage.ru_maxrss) / 1e3);
}

} // namespace

int main(int argc, char **argv) {
  auto number = [&](int i, int64_t otherwise) {
    return argc > i ? std::atoll(argv[i]) : otherwise;
  };
  if (argc > 2 && std::strcmp(argv[1], "--lengths") == 0)
    return printLengths(number(2, 0), static_cast<uint64_t>(number(3, 1)));
  auto candidates = argc > 1 ? readLengthGroups(argv[1])
                             : Result<LengthGroups>(invalid("usage: CANDIDATES.json ..."));
  if (!candidates) {
    std::fprintf(stderr, "bench_length_groups: %s\n", candidates.status().message().c_str());
    return 1;
  }
  PlanOptions options;
  options.choice.maxGroups = static_cast<int32_t>(number(3, 3));
  options.epoch.hbp = argc > 4 && std::strcmp(argv[4], "hbp") == 0;
  SampleLengths lengths = test::textLengths(number(2, 939343), static_cast<uint64_t>(number(5, 1)));
  std::clock_t start = std::clock();
  auto plan = planEpoch(lengths, *candidates, options);
  double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  if (!plan) {
    std::fprintf(stderr, "bench_length_groups: %s\n", plan.status().message().c_str());
    return 1;
  }
  print(*plan, seconds);
  return 0;
}
